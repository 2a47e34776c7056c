"""What a whole run did."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Self

from headrace.progress.model import BatchProgress, TableCounts


@dataclass(frozen=True)
class TableSummary(TableCounts):
    """The counts of one table in one sink over a whole run."""

    table: str
    sink: str

    @classmethod
    def empty(cls, table: str, sink: str) -> Self:
        """Before the first batch: nothing has arrived."""
        return cls(table, sink, rows_in=0, applied=0, late=0, superseded=0)


@dataclass(frozen=True)
class Summary:
    """What ``run`` did. ``seconds``: the sum of its batches."""

    pipeline: str
    batches: int
    seconds: float
    tables: tuple[TableSummary, ...]
    unrouted: tuple[str, ...] = ()

    @property
    def dead_letters(self) -> int:
        """Dead letters of the run, each counted once."""
        return count_dead_letters(self.tables)

    @classmethod
    def of(cls, pipeline: str, batches: Sequence[BatchProgress]) -> Self:
        """Return the sums of a pipeline's batches."""
        tables: dict[tuple[str, str], TableSummary] = {}
        for batch in batches:
            for progress in batch.tables:
                name = progress.table, progress.sink
                tables[name] = tables.get(name, TableSummary.empty(*name)) + progress
        unrouted = tuple(sorted({topic for batch in batches for topic in batch.unrouted}))
        return cls(pipeline, len(batches), round(sum(b.seconds for b in batches), 3), tuple(tables.values()), unrouted)


def count_dead_letters(tables: Iterable[TableSummary]) -> int:
    """Dead letters of several tables: each is kept once, however many sinks its table has."""
    return sum({table.table: table.dead_letters for table in tables}.values())
