"""Counts of a table's rows, observed while they are written."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from headrace.progress.model import TableProgress
from headrace.sdk.changes import COMMITTED, DELETED, ERROR, POSITION, SNAPSHOT, TIMESTAMP
from headrace.sdk.positions import in_epoch, is_tombstone
from headrace.sdk.sink import TableMode, WriteResult
from headrace.spark.observation import Observation
from headrace.upsert.snapshots import SeenSnapshot
from headrace.upsert.table_sources import source_aggregates
from headrace.upsert.unavailable import PARTIAL

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import Column, DataFrame


@dataclass(frozen=True)
class Counts:
    """Counts of a table's part of a batch. None: unknown, because nothing was read."""

    rows_in: int | None = None
    errors: int | None = None
    #: Commit times of the newest and the oldest change, in milliseconds since 1970.
    newest_ms: int | None = None
    oldest_ms: int | None = None
    #: Time of the newest record in the transport, likewise.
    arrived_ms: int | None = None
    #: Upserted rows, and deletes among them.
    upserts: int | None = None
    upsert_deletes: int | None = None
    #: Tombstones of keys without another change in the batch. No other count includes tombstones.
    tombstones: int | None = None
    #: Newest snapshot of the whole table with rows in the batch.
    snapshot: SeenSnapshot | None = None
    #: Lowest and highest source of the batch's rows.
    sources: frozenset[str] = frozenset()

    #: Changes that transforms left out; not in ``rows_in``.
    filtered: int = 0

    @property
    def rows_accepted(self) -> int | None:
        """Number of changes that are rows."""
        return None if self.rows_in is None or self.errors is None else self.rows_in - self.errors

    def with_origins(self, aggregates: Mapping[str, Any]) -> Counts:
        """Return the counts with the results of ``origin_aggregates``."""
        sources = {aggregates.get("first_source"), aggregates.get("last_source")} - {None}
        return replace(self, snapshot=SeenSnapshot.of(aggregates), sources=frozenset(map(str, sources)))

    def with_filtered(self, count: int) -> Counts:
        """Return the counts with the number of changes that transforms left out."""
        return replace(self, filtered=count)

    def with_removed(self, count: int) -> Counts:
        """Return the counts with tombstones that removed rows: each is a delete that arrived and was upserted."""
        if self.rows_in is None or self.upserts is None or self.upsert_deletes is None:
            return self
        upserts, deletes = self.upserts + count, self.upsert_deletes + count
        return replace(self, rows_in=self.rows_in + count, upserts=upserts, upsert_deletes=deletes)


class RowCounter:
    """Counter of a table's rows: all that arrive, and those left to upsert after deduplication."""

    def __init__(self, *, origins: Mapping[str, Column] | None = None, has_tombstones: bool = False) -> None:
        """``origins``: ``origin_aggregates``; ``has_tombstones``: changes may include tombstones."""
        from pyspark.sql import functions as F

        self._origins, self._has_tombstones = origins or {}, has_tombstones
        self._is_change = ~is_tombstone(F.col(POSITION)) if has_tombstones else F.lit(True)
        self._arrivals: Observation | None = None
        self._upserts: Observation | None = None

    def count_arrivals(self, changes: DataFrame) -> DataFrame:
        """Observe the changes when they are read."""
        from pyspark.sql import functions as F

        is_accepted = F.col(ERROR).isNull() & self._is_change
        arrived = {"arrived_ms": F.max(F.when(is_accepted, F.unix_millis(TIMESTAMP)))}
        self._arrivals = Observation(
            rows_in=F.count_if(self._is_change) if self._has_tombstones else F.count(F.lit(1)),
            errors=F.count(F.col(ERROR)),
            newest_ms=F.max(F.when(is_accepted, F.col(COMMITTED))),
            oldest_ms=F.min(F.when(is_accepted, F.col(COMMITTED))),
            **(arrived if TIMESTAMP in changes.columns else {}),
            **self._origins,
        )
        return self._arrivals.observe(changes)

    def count_upserts(self, rows: DataFrame) -> DataFrame:
        """Observe the deduplicated rows when they are read.

        Partial updates are not counted: they are rows of other changes.
        """
        from pyspark.sql import functions as F

        is_complete = ~F.col(PARTIAL) if PARTIAL in rows.columns else F.lit(True)
        self._upserts = Observation(
            rows=F.count_if(is_complete & self._is_change),
            deletes=F.count_if(F.col(DELETED) & self._is_change),
            **({"tombstones": F.count_if(~self._is_change)} if self._has_tombstones else {}),
        )
        return self._upserts.observe(rows)

    def collect(self, *, was_read: bool) -> Counts:
        """Return the counts after the rows were read.

        An observation that Spark does not deliver costs its whole timeout.
        """
        if not was_read:
            return Counts()
        arrivals = self._arrivals.result() if self._arrivals else {}
        upserts = self._upserts.result() if self._upserts else {}
        return Counts(
            rows_in=arrivals.get("rows_in"),
            errors=arrivals.get("errors"),
            newest_ms=arrivals.get("newest_ms"),
            oldest_ms=arrivals.get("oldest_ms"),
            arrived_ms=arrivals.get("arrived_ms"),
            upserts=upserts.get("rows"),
            upsert_deletes=upserts.get("deletes"),
            tombstones=upserts.get("tombstones"),
        ).with_origins(arrivals)


def origin_aggregates(epoch: int, *, has_snapshots: bool) -> dict[str, Column]:
    """Return aggregates over changes: their sources and, if they have SNAPSHOT, their newest snapshot."""
    from pyspark.sql import functions as F

    if not has_snapshots:
        return source_aggregates()
    began = in_epoch(F.when(F.col(ERROR).isNull(), F.col(SNAPSHOT).getField("began")), epoch)
    ended = F.when(F.col(SNAPSHOT).getField("is_last"), began)
    return {**source_aggregates(), "began": F.max(began), "ended": F.max(ended)}


def table_progress(
    table: str,
    sink: str,
    mode: TableMode,
    result: WriteResult,
    counts: Counts,
    *,
    dead_letters: int,
    dropped: int,
    reasons: Mapping[str, int],
    began: float,
    readable: float,
    seconds: float,
    note: str | None = None,
) -> TableProgress:
    """Return the progress of a table in a sink.

    ``began``, ``readable``: when its write began, and when its rows became readable, in seconds since 1970.
    """
    if mode == "upsert":
        rows, deletes = counts.upserts, counts.upsert_deletes or 0
    else:  # All accepted changes are written, and a delete is a row like any other.
        rows, deletes = counts.rows_accepted, 0
    applied, late = rows, None
    if result.skipped:
        applied = 0
    elif mode != "history" and result.upserted is not None and rows is not None:
        applied, late = result.upserted + deletes, max(0, rows - deletes - result.upserted)
    now = int(readable * 1000)
    return TableProgress(
        table=table,
        sink=sink,
        rows_in=None if counts.rows_in is None else counts.rows_in + counts.filtered,
        applied=applied,
        late=late,
        superseded=None if counts.rows_accepted is None or rows is None else counts.rows_accepted - rows,
        dead_letters=dead_letters,
        dropped=dropped,
        filtered=counts.filtered,
        latency_ms=None if counts.newest_ms is None else now - counts.newest_ms,
        latency_max_ms=None if counts.oldest_ms is None else now - counts.oldest_ms,
        stages_ms=_measure_stages(counts, int(began * 1000), now),
        bytes=result.bytes,
        version=result.version,
        seconds=round(seconds, 3),
        skipped=result.skipped,
        note=note,
        reasons=dict(reasons),
    )


def _measure_stages(counts: Counts, began: int, readable: int) -> dict[str, int]:
    """Return the parts of the latency of the newest change. ``began``, ``readable``: in milliseconds since 1970."""
    if counts.newest_ms is None or counts.arrived_ms is None:
        return {}
    arrived = counts.arrived_ms
    return {"transport": arrived - counts.newest_ms, "read": began - arrived, "write": readable - began}
