"""Small ranged source, a sink that can be paused, and a process to kill during a batch.

::

    python -m tests.support.ranged log.jsonl checkpoint out hold     # applies log.jsonl in batches of four
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from headrace import Pipeline, RetriableError
from headrace.sdk.config import Config
from headrace.sdk.sink import Batch, Sink, Table, WriteResult
from headrace.sdk.source import Offset, RangedSource
from headrace_sinks.files import FilesSink
from headrace_sources.formats.json.json_format import JsonFormat

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TOPIC = "shop.public.orders"


class LinesConfig(Config):
    """Location of a file of numbered lines."""

    path: str
    limit: int | None = None
    """Maximum number of lines per batch."""

    startingOffsets: Literal["earliest", "latest"] = "earliest"  # noqa: N815 - Spark's own name
    """Start of a stream without a checkpoint."""


class LinesSource(RangedSource):
    """Source of lines ``{"line": 1, "topic": …, "key": …, "value": …}`` of a growing file; the default ``partition`` is 0."""

    name = "lines"
    api_version = 1
    Config = LinesConfig
    config: LinesConfig

    def __init__(self, config: Any = None, **options: Any) -> None:
        super().__init__(config, **options)
        self._bound: int | None = None
        #: Number of requests for the latest offset, and committed lines in order.
        self.asked = 0
        self.committed: list[int] = []
        #: Errors of the next requests, one for each request.
        self.failures: list[Exception] = []
        #: Requests wait while this event is not set.
        self.answers = threading.Event()
        self.answers.set()

    def initial(self) -> Offset:
        return {"line": self._length() if self.config.startingOffsets == "latest" else 0}

    def latest(self, start: Offset, limit: int | None) -> Offset:
        self.asked += 1
        assert self.answers.wait(60)
        if self.failures:
            raise self.failures.pop(0)
        end = self._length() if self._bound is None else self._bound
        return {"line": min(end, start["line"] + limit) if limit else end}

    def read(self, spark: SparkSession, start: Offset, end: Offset) -> DataFrame:
        from pyspark.sql import functions as F

        line = F.get_json_object("value", "$.line").cast("bigint")
        return spark.read.text(self.config.path).where(line.between(start["line"] + 1, end["line"])).select(
            F.get_json_object("value", "$.key").alias("key"),
            F.get_json_object("value", "$.value").alias("value"),
            F.get_json_object("value", "$.topic").alias("topic"),
            F.coalesce(F.get_json_object("value", "$.partition").cast("int"), F.lit(0)).alias("partition"),
            line.alias("offset"),
        )  # fmt: skip

    def commit(self, end: Offset) -> None:
        self.committed.append(end["line"])

    def prepare_for_trigger_available_now(self) -> None:
        self._bound = self._length()

    def _length(self) -> int:
        return Path(self.config.path).read_bytes().count(b"\n")


class PausableSink(FilesSink):
    """Files sink that reports its current batch and holds it while a marker file exists."""

    name = "held"

    def __init__(self, hold: Path, **options: Any) -> None:
        super().__init__(**options)
        self.hold = hold

    @property
    def in_hand(self) -> Path:
        return self.hold.with_suffix(".in-hand")

    def write(self, table: Table, rows: DataFrame, batch: Batch) -> WriteResult:
        self.in_hand.write_text(str(batch.id))
        deadline = time.monotonic() + 120
        while self.hold.exists():
            if time.monotonic() > deadline:
                raise RetriableError("still held")
            time.sleep(0.01)
        return super().write(table, rows, batch)


def append(path: Path, numbers: Iterable[int], topic: str = TOPIC) -> None:
    """Add an order per number; line numbers continue."""
    last = path.read_bytes().count(b"\n") if path.exists() else 0
    with path.open("a") as file:
        for line, number in enumerate(numbers, last + 1):
            order = {"id": number, "item": f"item {number}"}
            print(json.dumps({"line": line, "topic": topic, "key": {"id": number}, "value": order}), file=file)


def pipeline(source: LinesSource, sinks: Iterable[Sink], checkpoint: Path) -> Pipeline:
    spark = {"spark.master": "local[2]", "spark.sql.shuffle.partitions": 2, "spark.driver.memory": "1g"}
    return Pipeline("orders", source, list(sinks), str(checkpoint), value=JsonFormat(), key=JsonFormat(), spark=spark)


def main(path: str, checkpoint: str, out: str, hold: str) -> None:
    sinks = [FilesSink(path=f"{out}/first"), PausableSink(Path(hold), path=f"{out}/second")]
    pipeline(LinesSource(path=path, limit=4), sinks, Path(checkpoint)).run()


if __name__ == "__main__":
    main(*sys.argv[1:])
