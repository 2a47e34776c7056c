"""What becomes of records that cannot become a row, by reason, and how many are too many."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headrace.config.dead_letter_options import Policy, parse_percentage
from headrace.errors import RuleError
from headrace.sdk.reject_reason import RejectReason

if TYPE_CHECKING:
    from headrace.progress.model import TableProgress

#: Records from which on a share of them says something.
MIN_RECORDS = 100


@dataclass(frozen=True)
class DeadLetterPolicy:
    """What the pipeline file says of rejected records: what becomes of them by reason, and how many are too many.

    ``limit``: dead letters of a run, as a number (``1000``) or as a share of its records (``5%``); None: any.
    """

    policies: Mapping[RejectReason, Policy] = field(default_factory=dict)
    limit: int | str | None = None

    def drops(self, counts: Mapping[str, int], table: str) -> dict[str, int]:
        """Of a batch's records by reason, those that are left out. RuleError for a reason at which the run is to stop."""
        for reason, count in counts.items():
            if self._policy(reason) == "stop":
                raise RuleError(
                    f"{count:,} record{'s' * (count != 1)}: {reason}, {RejectReason(reason).meaning}",
                    where=f"table {table}",
                    fix="mend what wrote them; or write `dead-letter` for this reason in `dead.letters:`, which keeps them aside",
                )
        return {reason: count for reason, count in counts.items() if self._policy(reason) == "drop"}

    def check_limit(self, records: int, dead_letters: int) -> None:
        """RuleError when a run has more dead letters, of so many records, than the file allows."""
        share = parse_percentage(self.limit) if isinstance(self.limit, str) else None
        if share is not None:
            over = records >= MIN_RECORDS and dead_letters > share * records
        else:
            over = isinstance(self.limit, int) and dead_letters > self.limit
        if over:
            raise RuleError(
                f"{dead_letters:,} of {records:,} records are dead letters, and `max.dead.letters` is {self.limit}",
                where="this run",
                fix="look at them with `headrace dead-letters FILE`; mend what wrote them, or raise the limit",
            )

    def _policy(self, reason: str) -> Policy:
        return next((policy for known, policy in self.policies.items() if known == reason), "dead-letter")


class DeadLetterCounter:
    """Counts the records of a run and its dead letters. Threads may share it."""

    def __init__(self, policy: DeadLetterPolicy, sink: str) -> None:
        """``sink``: the one whose counts are taken, for every record comes into each."""
        self._policy, self._sink = policy, sink
        self._lock = threading.Lock()
        self._records = self._dead_letters = 0

    def add(self, tables: Iterable[TableProgress]) -> None:
        """RuleError when the run has too many dead letters."""
        with self._lock:
            for table in tables:
                if table.sink == self._sink:
                    self._records += table.rows_in or 0
                    self._dead_letters += table.dead_letters
            self._policy.check_limit(self._records, self._dead_letters)
