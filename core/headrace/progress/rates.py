"""How fast changes flow into each table, from the last batches."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from headrace.progress.model import BatchProgress, TableProgress

#: Seconds over which the rate is taken.
WINDOW = 60.0


@dataclass(frozen=True)
class TableStatus:
    """How one table in one sink keeps up. None: not known."""

    table: str
    sink: str
    #: Milliseconds from commit to readable in the table's last batch: of its newest and of its oldest change.
    latency_ms: int | None
    latency_max_ms: int | None
    #: Records that wait in the source, and the seconds by which the table is older than they are at least.
    lag: int | None
    lag_seconds: float | None
    #: Records a second that arrived over the last minute.
    rows_per_second: float
    #: Why the table is not written, when it fails.
    error: str | None = None
    #: The last batch that wrote it, and when that had ended: UTC, ISO 8601.
    batch: int | None = None
    ended: str | None = None


def flow(batches: Sequence[BatchProgress], now: float | None = None) -> tuple[TableStatus, ...]:
    """The state of every table that the batches brought something for. ``now``: seconds since 1970."""
    now = time.time() if now is None else now
    latest: dict[tuple[str, str], tuple[BatchProgress, TableProgress]] = {}
    errors: dict[tuple[str, str], str | None] = {}
    rows: dict[tuple[str, str], int] = {}
    since = now
    for batch in batches:
        began = datetime.fromisoformat(batch.started).timestamp()
        for table in batch.tables:
            name = table.table, table.sink
            errors[name] = table.error
            if table.error is None or name not in latest:
                latest[name] = (batch, table)
            if began + batch.seconds > now - WINDOW:
                rows[name] = rows.get(name, 0) + (table.rows_in or 0)
                since = min(since, began)
    spent = max(now - since, 0.001)
    return tuple(
        TableStatus(
            *name,
            table.latency_ms,
            table.latency_max_ms,
            table.lag,
            _seconds(table, now - _ended(batch).timestamp()),
            round(rows.get(name, 0) / spent, 1),
            errors[name],
            *((None, None) if table.error else (batch.batch, _ended(batch).isoformat(timespec="milliseconds"))),
        )
        for name, (batch, table) in latest.items()
    )


def _ended(batch: BatchProgress) -> datetime:
    return datetime.fromisoformat(batch.started) + timedelta(seconds=batch.seconds)


def _seconds(table: TableProgress, age: float) -> float | None:
    if table.lag == 0:
        return 0.0
    if table.lag is None or table.latency_ms is None:
        return None
    return round(table.latency_ms / 1000 + age, 1)
