"""Counts of a table since the start of its OpenLineage run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from headrace.sdk.observer import TableProgress


@dataclass
class SinkCounts:
    """Rows and bytes that were written into one sink. None: unknown."""

    rows: int | None = None
    bytes: int | None = None


@dataclass
class TableCounts:
    """Counts of one table. Records and their outcomes are those of its first sink, because every sink receives the same records."""

    batches: int = 0
    last_batch: int | None = None
    #: Outcome → number of records, of outcomes that are known.
    records: dict[str, int] = field(default_factory=dict)
    sinks: dict[str, SinkCounts] = field(default_factory=dict)

    def add(self, batch: int, progress: Sequence[TableProgress]) -> None:
        """Add a batch. ``progress``: the table's in each sink that has it. A sink that already had the batch counts nothing."""
        written = [one for one in progress if not one.skipped]
        if not written:
            return
        self.batches, self.last_batch = self.batches + 1, batch
        first = written[0]
        counts = {
            "rowsIn": first.rows_in,
            "late": first.late,
            "superseded": first.superseded,
            "deadLetters": first.dead_letters,
            "dropped": first.dropped,
            "filtered": first.filtered,
        }
        for name, count in counts.items():
            if count is not None:
                self.records[name] = self.records.get(name, 0) + count
        for one in written:
            found = self.sinks.setdefault(one.sink, SinkCounts())
            found.rows, found.bytes = _add(found.rows, one.applied), _add(found.bytes, one.bytes)


def _add(known: int | None, more: int | None) -> int | None:
    return known if more is None else (known or 0) + more
