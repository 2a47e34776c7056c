"""Policies for rejected records by reason, and the limit of dead letters."""

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

#: Number of records below which a percentage limit does not apply.
MIN_RECORDS = 100


@dataclass(frozen=True)
class DeadLetterPolicy:
    """Policies of the pipeline file for rejected records, by reason, and the limit of dead letters.

    ``limit``: maximum number of dead letters of a run (``1000``), or percentage of its records (``5%``); None: no limit.
    """

    policies: Mapping[RejectReason, Policy] = field(default_factory=dict)
    limit: int | str | None = None

    def drops(self, counts: Mapping[str, int], table: str) -> dict[str, int]:
        """Return reject reason → number of records to drop. RuleError for a reason that stops the run."""
        for reason, count in counts.items():
            if self._policy(reason) == "stop":
                raise RuleError(
                    f"{count:,} record{'s' * (count != 1)}: {reason}, {RejectReason(reason).meaning}",
                    where=f"table {table}",
                    fix="fix the producer; or set `dead-letter` for this reason in `dead.letters:` to keep them as dead letters",
                )
        return {reason: count for reason, count in counts.items() if self._policy(reason) == "drop"}

    @property
    def share(self) -> float | None:
        """Limit of dead letters as a share of all records; None for an absolute limit."""
        return parse_percentage(self.limit) if isinstance(self.limit, str) else None

    def check_limit(self, records: int, dead_letters: int) -> None:
        """Raise RuleError if a run has more dead letters than the limit."""
        if self.share is not None:
            over = records >= MIN_RECORDS and dead_letters > self.share * records
        else:
            over = isinstance(self.limit, int) and dead_letters > self.limit
        if over:
            raise RuleError(
                f"{dead_letters:,} of {records:,} records are dead letters, and `max.dead.letters` is {self.limit}",
                where="this run",
                fix="list them with `headrace dead-letters FILE`; fix the producer, or raise the limit",
            )

    def _policy(self, reason: str) -> Policy:
        return next((policy for known, policy in self.policies.items() if known == reason), "dead-letter")


class DeadLetterCounter:
    """Counter of a run's records and dead letters. Thread-safe."""

    def __init__(self, policy: DeadLetterPolicy) -> None:
        self._policy = policy
        self._lock = threading.Lock()
        self._records = self._dead_letters = 0

    def add(self, tables: Iterable[TableProgress]) -> None:
        """Add the counts of tables. RuleError if the run has too many dead letters."""
        with self._lock:
            # Every sink of a table receives the same records: one of them counts.
            for table in {table.table: table for table in tables}.values():
                # A table that had the batch already has an unknown number of records, so its share is unknown.
                if table.rows_in is not None or self._policy.share is None:
                    self._records += table.rows_in or 0
                    self._dead_letters += table.dead_letters
            self._policy.check_limit(self._records, self._dead_letters)
