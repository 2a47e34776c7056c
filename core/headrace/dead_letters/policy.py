"""What becomes of records that cannot become a row, by reason, and how many are too many."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headrace.config.dead_letters import Policy, share_of
from headrace.errors import RuleError
from headrace.sdk.reject_reason import RejectReason

if TYPE_CHECKING:
    from headrace.progress.model import TableProgress

#: Records from which on a share tells something.
ENOUGH = 100


@dataclass(frozen=True)
class Rules:
    """Those of a pipeline's file.

    ``most``: dead letters of a run, as a number (``1000``) or as a share of its records (``5%``); None: any.
    """

    policies: Mapping[RejectReason, Policy] = field(default_factory=dict)
    most: int | str | None = None

    def dropped(self, counts: Mapping[str, int], table: str) -> dict[str, int]:
        """Of the reasons of a batch, those that are left out. RuleError for one at which the run is to stop."""
        for reason, count in counts.items():
            if self._policy(reason) == "stop":
                raise RuleError(
                    f"{count:,} record{'s' * (count != 1)}: {reason}, {RejectReason(reason).meaning}",
                    where=f"table {table}",
                    fix="mend what wrote them; or write `dead-letter` for this reason in `dead.letters:`, which keeps them aside",
                )
        return {reason: count for reason, count in counts.items() if self._policy(reason) == "drop"}

    def limit(self, records: int, letters: int) -> None:
        """RuleError when a run has more dead letters, of so many records, than the file allows."""
        share = share_of(self.most) if isinstance(self.most, str) else None
        if share is not None:
            over = records >= ENOUGH and letters > share * records
        else:
            over = isinstance(self.most, int) and letters > self.most
        if over:
            raise RuleError(
                f"{letters:,} of {records:,} records are dead letters, and `max.dead.letters` is {self.most}",
                where="this run",
                fix="look at them with `headrace dead-letters FILE`; mend what wrote them, or raise the limit",
            )

    def _policy(self, reason: str) -> Policy:
        return next((policy for known, policy in self.policies.items() if known == reason), "dead-letter")


class Tally:
    """What a run has read, and what of it became dead letters. Threads may share it."""

    def __init__(self, rules: Rules, sink: str) -> None:
        """``sink``: the one whose counts are taken, for every record comes into each."""
        self._rules, self._sink = rules, sink
        self._lock = threading.Lock()
        self._records = self._letters = 0

    def add(self, tables: Iterable[TableProgress]) -> None:
        """RuleError when the run has too many dead letters."""
        with self._lock:
            for table in tables:
                if table.sink == self._sink:
                    self._records += table.rows_in or 0
                    self._letters += table.dead_letters
            self._rules.limit(self._records, self._letters)
