"""Lag, latency and rate of each table, from the last batches."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from headrace.progress.model import BatchProgress, TableProgress

#: Seconds over which the rate is measured.
WINDOW = 60.0

#: Names of a table and a sink.
TableInSink = tuple[str, str]


@dataclass(frozen=True)
class TableFailure:
    """Failure of a table that is set aside and catches up later."""

    #: Time of the first failed batch: UTC, ISO 8601.
    since: str
    error: str
    #: Number of batches that the table misses. None: unknown.
    backlog: int | None


@dataclass(frozen=True)
class TableStatus:
    """Status of one table in one sink. None: unknown. A failed table has neither latency nor lag."""

    table: str
    sink: str
    #: Milliseconds from commit to readable in the table's last batch: of its newest and of its oldest change.
    latency_ms: int | None = None
    latency_max_ms: int | None = None
    #: Parts of ``latency_ms``: ``transport``, ``read`` and ``write``; empty if unknown.
    stages_ms: Mapping[str, int] = field(default_factory=dict, hash=False)
    #: Records that wait in the source, and the minimum delay of the table in seconds.
    lag: int | None = None
    lag_seconds: float | None = None
    #: Records per second over the last minute.
    rows_per_second: float = 0.0
    #: Error of a failed table.
    error: str | None = None
    #: Last batch that wrote the table, and its end: UTC, ISO 8601.
    batch: int | None = None
    ended: str | None = None
    #: Time of the first failed batch, UTC, ISO 8601, and the number of missed batches.
    failing_since: str | None = None
    backlog: int | None = None


class _TableHistory:
    """History of one table in one sink over the last batches."""

    def __init__(self) -> None:
        self.written: tuple[BatchProgress, TableProgress] | None = None
        self.failure: TableFailure | None = None
        #: Records of the last minute.
        self.rows = 0

    def add(self, batch: BatchProgress, progress: TableProgress) -> None:
        if progress.error is None:
            self.written, self.failure = (batch, progress), None
        else:
            since = self.failure.since if self.failure else _whole_seconds(batch.started)
            self.failure = TableFailure(since, progress.error, backlog=None)


def measure_tables(
    batches: Sequence[BatchProgress],
    failures: Mapping[TableInSink, TableFailure] | None = None,
    now: float | None = None,
) -> tuple[TableStatus, ...]:
    """Return the status of each table with progress in the batches or with a failure.

    ``failures``: failed tables, which may be older than ``batches``. ``now``: seconds since 1970.
    """
    now = time.time() if now is None else now
    tables: dict[TableInSink, _TableHistory] = {}
    since = now
    for batch in batches:
        began = datetime.fromisoformat(batch.started).timestamp()
        is_recent = began + batch.seconds > now - WINDOW
        since = min(since, began) if is_recent and batch.tables else since
        for progress in batch.tables:
            history = tables.setdefault((progress.table, progress.sink), _TableHistory())
            history.add(batch, progress)
            history.rows += (progress.rows_in or 0) if is_recent else 0
    for name, failure in (failures or {}).items():
        tables.setdefault(name, _TableHistory()).failure = failure
    seconds = max(now - since, 0.001)
    return tuple(_status(name, history, history.rows / seconds, now) for name, history in tables.items())


def _status(name: TableInSink, history: _TableHistory, rate: float, now: float) -> TableStatus:
    status = TableStatus(*name, rows_per_second=round(rate, 1))
    if history.written:
        batch, progress = history.written
        ended = _end_of(batch)
        status = replace(
            status,
            latency_ms=progress.latency_ms,
            latency_max_ms=progress.latency_max_ms,
            stages_ms=progress.stages_ms,
            lag=progress.lag,
            lag_seconds=_lag_seconds(progress, now - ended.timestamp()),
            batch=batch.batch,
            ended=ended.isoformat(timespec="milliseconds"),
        )
    if failure := history.failure:
        # Latency and lag of the last successful batch are outdated.
        status = replace(status, latency_ms=None, latency_max_ms=None, stages_ms={}, lag=None, lag_seconds=None)
        status = replace(status, error=failure.error, failing_since=failure.since, backlog=failure.backlog)
    return status


def measure_age(table: TableStatus) -> float | None:
    """Return the seconds since the end of the table's last batch; None without one."""
    return None if table.ended is None else (datetime.now(UTC) - datetime.fromisoformat(table.ended)).total_seconds()


def _end_of(batch: BatchProgress) -> datetime:
    return datetime.fromisoformat(batch.started) + timedelta(seconds=batch.seconds)


def _whole_seconds(time: str) -> str:
    return datetime.fromisoformat(time).astimezone(UTC).isoformat(timespec="seconds")


def _lag_seconds(progress: TableProgress, age: float) -> float | None:
    """Return the delay of a table in seconds. ``age``: seconds since the batch ended."""
    if progress.lag == 0 or progress.lag_ms == 0:
        return 0.0
    behind = progress.lag_ms if progress.lag is None else progress.latency_ms
    return None if behind is None else round(behind / 1000 + age, 1)
