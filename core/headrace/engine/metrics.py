"""What is counted while a batch is written."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from headrace.progress.model import TableProgress
from headrace.sdk.sink import WriteResult

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


class Count:
    """Aggregates over a DataFrame, taken while something else reads it."""

    def __init__(self, **aggregates: Column) -> None:
        from pyspark.sql import Observation

        self._observation, self._aggregates = Observation(), aggregates

    def on(self, frame: DataFrame) -> DataFrame:
        return frame.observe(self._observation, *[column.alias(name) for name, column in self._aggregates.items()])

    def result(self) -> dict[str, Any]:
        """The aggregates, once the DataFrame has been read; empty when Spark does not deliver them."""
        found: dict[str, Any] = {}
        # The listener that brings them runs behind the action: wait for it, but not for ever.
        waiter = threading.Thread(target=lambda: found.update(self._observation.get), daemon=True)
        waiter.start()
        waiter.join(timeout=10)
        return found


def outcome(
    table: str,
    sink: str,
    result: WriteResult,
    seen: dict[str, Any],
    kept: dict[str, Any],
    readable: float,
    seconds: float,
) -> TableProgress:
    """What came of a table's write into a sink, from what was counted.

    ``seen``: of all that arrived, ``kept``: of what was written, ``readable``: when the rows could be read, in seconds since 1970; ``seconds``: what the table took.
    """
    now = int(readable * 1000)
    newest, oldest = (None if (ms := seen.get(name)) is None else now - ms for name in ("newest_ms", "oldest_ms"))
    rows = kept.get("good", kept.get("rows"))
    deletes = kept.get("deletes", 0)
    superseded = seen["good"] - rows if "good" in seen and rows is not None else None
    applied, late = rows, None
    if result.skipped:
        applied = 0
    elif result.upserted is not None and rows is not None:
        applied, late = result.upserted + deletes, max(0, rows - deletes - result.upserted)
    return TableProgress(
        table=table,
        sink=sink,
        rows_in=seen.get("rows_in"),
        applied=applied,
        late=late,
        superseded=superseded,
        dead_letters=seen.get("errors", 0),
        dropped=seen.get("dropped", 0),
        latency_ms=newest,
        latency_max_ms=oldest,
        bytes=result.bytes,
        version=result.version,
        seconds=round(seconds, 3),
        skipped=result.skipped,
    )
