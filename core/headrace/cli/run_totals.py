"""Totals of a run, by table."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, replace
from time import monotonic
from typing import TYPE_CHECKING

from headrace.progress.summary import TableSummary, count_dead_letters

if TYPE_CHECKING:
    from headrace.progress.model import BatchProgress, TableProgress


@dataclass(frozen=True)
class TableTotal(TableSummary):
    """Counts of one table in one sink over a run, and its last batch."""

    _: KW_ONLY
    #: Seconds from the newest change's commit to its row being readable. None: unknown, or the table fails.
    latency: float | None = None
    #: Last batch that wrote the table, and its time by ``time.monotonic``.
    batch: int | None = None
    ended: float | None = None
    #: Error of a failed table.
    error: str | None = None

    def add(self, batch: int, progress: TableProgress) -> TableTotal:
        """Return the totals after one more batch."""
        if progress.error or progress.skipped:
            # A batch that failed, or that the table already had, changes no other total.
            progress = replace(progress, rows_in=0, applied=0, late=0, superseded=0)
        total = self + progress
        if progress.error:
            return replace(total, latency=None, error=progress.error)
        latency = self.latency if progress.latency_ms is None else progress.latency_ms / 1000
        return replace(total, latency=latency, batch=batch, ended=monotonic(), error=None)


class Totals:
    """Sums over all batches of a run. The engine's thread updates them, the screen's thread reads them."""

    def __init__(self, pipeline: str) -> None:
        self.pipeline, self.began = pipeline, monotonic()
        self.batches, self.seconds = 0, 0.0
        self.unrouted: dict[str, None] = {}
        #: Topics without rows → their kind, and the number of their records.
        self.notices: dict[str, str] = {}
        self.left_out: dict[str, int] = {}
        self._known_notes: set[tuple[str, str, str | None]] = set()
        self._tables: dict[tuple[str, str], TableTotal] = {}

    @property
    def tables(self) -> list[TableTotal]:
        return list(self._tables.values())

    @property
    def dead_letters(self) -> int:
        """Dead letters of the run, each counted once."""
        return count_dead_letters(self.tables)

    @property
    def age(self) -> float:
        """Seconds since the program started."""
        return monotonic() - self.began

    def add(self, progress: BatchProgress) -> list[str]:
        """Add a batch. Return messages about its first occurrences: notes, and topics without a table."""
        self.batches += 1
        self.seconds += progress.seconds
        for table in progress.tables:
            name = table.table, table.sink
            self._tables[name] = self._tables.get(name, TableTotal.empty(*name)).add(progress.batch, table)
        return [*self._new_notes(progress), *self._new_topics(progress)]

    def _new_notes(self, progress: BatchProgress) -> list[str]:
        tables = [t for t in progress.tables if t.note and (t.table, t.sink, t.note) not in self._known_notes]
        self._known_notes |= {(table.table, table.sink, table.note) for table in tables}
        return [f"{table.table} → {table.sink}: {table.note}" for table in tables]

    def _new_topics(self, progress: BatchProgress) -> list[str]:
        unrouted = [topic for topic in progress.unrouted if topic not in self.unrouted]
        self.unrouted.update(dict.fromkeys(unrouted))
        notices = {topic: notice for topic, notice in progress.notices.items() if topic not in self.notices}
        self.notices.update(progress.notices)
        for topic, records in progress.left_out.items():
            self.left_out[topic] = self.left_out.get(topic, 0) + records
        return [
            *(f"skipped: topic {topic} (no rule of `tables:` matches)" for topic in unrouted),
            *(f"no table: topic {topic} ({notice})" for topic, notice in notices.items()),
        ]
