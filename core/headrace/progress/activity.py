"""Work of a batch in progress."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass
class BatchActivity:
    """Tables of the batch in progress. The threads of the tables update it, the screen's thread reads it."""

    _lock: threading.Lock = field(default_factory=threading.Lock)
    _total: int = 0
    _done: int = 0
    _records: int = 0
    _current: list[str] = field(default_factory=list)

    def begin(self) -> None:
        """Record that a batch starts: its records are read, and its tables are not known yet."""
        self.begin_tables(0)

    def begin_tables(self, total: int) -> None:
        """Record the number of tables to write."""
        with self._lock:
            self._total, self._done, self._records, self._current = total, 0, 0, []

    def begin_table(self, name: str) -> None:
        """Record that a table is being written."""
        with self._lock:
            self._current.append(name)

    def end_table(self, name: str, records: int) -> None:
        """Record that a table is written, or has failed, and the number of its records."""
        with self._lock:
            self._done, self._records = self._done + 1, self._records + records
            self._current = [other for other in self._current if other != name]

    def describe(self, sinks: Sequence[str]) -> str:
        """Return the step of the batch: ``table 3 of 15 → SINK: shop.orders and 2 more; 8,817 records so far``."""
        with self._lock:
            if not self._total:
                return "finding the tables of the records"
            if self._done >= self._total:
                return f"saving the progress of {self._records:,} records"
            names = self._current[0] if self._current else "waiting for a thread"
            more = f" and {len(self._current) - 1} more" if len(self._current) > 1 else ""
            table = f"table {self._done + 1} of {self._total} → {', '.join(sinks)}: {names}{more}"
            return f"{table}; {self._records:,} records so far" if self._records else table
