"""What a whole run did."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

from headrace.progress.model import BatchProgress


@dataclass(frozen=True)
class TableSummary:
    """One table in one sink over a whole run. None: not known without reading the table."""

    table: str
    sink: str
    rows_in: int | None = 0
    applied: int | None = 0
    late: int | None = 0
    dead_letters: int = 0


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
        """Kept once, however many sinks a table has."""
        return sum({t.table: t.dead_letters for t in self.tables}.values())

    @classmethod
    def of(cls, pipeline: str, batches: Sequence[BatchProgress]) -> Self:
        """The sums of a pipeline's batches."""
        totals: dict[tuple[str, str], TableSummary] = {}
        for batch in batches:
            for t in batch.tables:
                so_far = totals.get((t.table, t.sink), TableSummary(t.table, t.sink))
                totals[t.table, t.sink] = replace(
                    so_far,
                    rows_in=added(so_far.rows_in, t.rows_in),
                    applied=added(so_far.applied, t.applied),
                    late=added(so_far.late, t.late),
                    dead_letters=so_far.dead_letters + t.dead_letters,
                )
        unrouted = tuple(sorted({topic for batch in batches for topic in batch.unrouted}))
        return cls(pipeline, len(batches), round(sum(b.seconds for b in batches), 3), tuple(totals.values()), unrouted)


def added(first: int | None, second: int | None) -> int | None:
    """The sum of two counts; None when one is not known."""
    return None if first is None or second is None else first + second
