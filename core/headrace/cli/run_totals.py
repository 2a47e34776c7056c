"""What a run has done so far, table by table."""

from __future__ import annotations

from dataclasses import dataclass, field
from time import monotonic
from typing import TYPE_CHECKING

from headrace.progress.summary import added

if TYPE_CHECKING:
    from headrace.progress.model import BatchProgress, TableProgress


@dataclass
class TableTotal:
    """One table in one sink. None: not known without reading the table."""

    table: str
    sink: str
    rows_in: int | None = 0
    applied: int | None = 0
    late: int | None = 0
    superseded: int | None = 0
    dead_letters: int = 0
    dropped: int = 0
    #: Seconds from the newest change's commit to its row being readable, in the last batch that knew it.
    behind: float | None = None
    batch: int = 0
    ended: float = field(default_factory=monotonic)
    error: str | None = None

    def add(self, batch: int, progress: TableProgress) -> None:
        self.batch, self.ended, self.error = batch, monotonic(), progress.error
        if progress.latency_ms is not None:
            self.behind = progress.latency_ms / 1000
        # A batch that failed, or that was in the table before, brought nothing that would have to be known.
        if not progress.error and not progress.skipped:
            self.rows_in = added(self.rows_in, progress.rows_in)
            self.applied = added(self.applied, progress.applied)
            self.late = added(self.late, progress.late)
            self.superseded = added(self.superseded, progress.superseded)
        self.dead_letters += progress.dead_letters
        self.dropped += progress.dropped


class Totals:
    """Sums of all batches of a run. Added to by the engine's thread, read by the screen's."""

    def __init__(self, pipeline: str) -> None:
        self.pipeline, self.began = pipeline, monotonic()
        self.batches, self.seconds = 0, 0.0
        self.unrouted: dict[str, None] = {}
        self._notices: dict[str, str] = {}
        self._noted: set[tuple[str, str]] = set()
        self._tables: dict[tuple[str, str], TableTotal] = {}

    @property
    def tables(self) -> list[TableTotal]:
        return list(self._tables.values())

    @property
    def dead_letters(self) -> int:
        """Kept once, however many sinks a table has."""
        return sum({t.table: t.dead_letters for t in self.tables}.values())

    @property
    def age(self) -> float:
        return monotonic() - self.began

    def add(self, progress: BatchProgress) -> list[str]:
        """Adds a batch; what to say of topics that were left out for the first time."""
        self.batches += 1
        self.seconds += progress.seconds
        noted = [table for table in progress.tables if table.note and (table.table, table.sink) not in self._noted]
        self._noted |= {(table.table, table.sink) for table in noted}
        for table in progress.tables:
            name = table.table, table.sink
            self._tables.setdefault(name, TableTotal(*name)).add(progress.batch, table)
        new = [topic for topic in progress.unrouted if topic not in self.unrouted]
        self.unrouted.update(dict.fromkeys(new))
        told = [topic for topic in progress.notices if topic not in self._notices]
        self._notices.update(progress.notices)
        return [
            *(f"{table.table} → {table.sink}: {table.note}" for table in noted),
            *(f"left out: topic {topic} (no rule of `tables:` names it)" for topic in new),
            *(f"no table: topic {topic} ({progress.notices[topic]})" for topic in told),
        ]
