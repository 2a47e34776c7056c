"""Pipelines of orders from either kind of source, and a process that stops Spark under some of them.

::

    python -m tests.support.orders FOLDER
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.support import ranged
from tests.support.ranged import LinesSource, PausableSink, append
from tests.support.spark_conf import INTERPRETED
from tests.support.waiting import until

from headrace import HeadraceError, Pipeline
from headrace.engine.run.query import Query
from headrace.sdk.source import Source
from headrace_sources.formats.json.json_format import JsonFormat
from headrace_sources.transports.files import FilesSource

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KINDS = ("ranged", "native")
TRIGGER = "200 milliseconds"
#: Runs during which Spark is stopped: kind of source and state of the run. Their triggers follow.
RUNS = (("ranged", "idle"), ("native", "idle"), ("native", "held"))
_TRIGGERS = ("1 hour", TRIGGER, TRIGGER)


class Orders:
    """Pipeline of orders from either kind of source into a folder of JSON files."""

    def __init__(self, folder: Path, kind: str, **options: Any) -> None:
        folder.mkdir(exist_ok=True)
        self.folder, self.kind = folder, kind
        self.log, self.checkpoint, self.hold = folder / "log.jsonl", folder / "checkpoint", folder / "hold"
        self.landing = folder / "landing"
        self.landing.mkdir(exist_ok=True)
        self.log.touch()
        self.files = 0
        self.options = options

    def add(self, *numbers: int) -> None:
        """Add orders, as lines or as one file."""
        if self.kind == "ranged":
            append(self.log, numbers)
            return
        topic = self.landing / ranged.TOPIC
        topic.mkdir(exist_ok=True)
        rows = "".join(json.dumps({"id": n, "item": f"item {n}"}) + "\n" for n in numbers)
        hidden = topic / f".{self.files}"
        hidden.write_text(rows)
        hidden.rename(topic / f"{ranged.TOPIC}+0+{self.files:010d}.json")
        self.files += len(numbers)

    def source(self, **options: Any) -> Source:
        if self.kind == "ranged":
            return LinesSource(path=str(self.log), **{**self.options, **options})
        return FilesSource(path=str(self.landing), format="json", **{**self.options, **options})

    def sink(self) -> PausableSink:
        return PausableSink(self.hold, path=str(self.folder / "out"))

    def pipeline(self, source: Source | None = None) -> Pipeline:
        value = JsonFormat() if self.kind == "ranged" else None
        return Pipeline(
            f"orders-{self.folder.name}", source or self.source(), [self.sink()], str(self.checkpoint), value=value
        )

    def start(self, spark: SparkSession, trigger: str | None = TRIGGER, **options: Any) -> Query:
        pipeline = self.pipeline(options.pop("source", None))
        return pipeline.start(spark, trigger, **options) if trigger else pipeline.start_available_now(spark, **options)

    def read_batches(self, sink: str = "out") -> dict[int, list[int]]:
        """Return the order numbers of each batch."""
        batches: dict[int, list[int]] = {}
        for done in (self.folder / sink / ranged.TOPIC.replace(".", "/")).glob("_headrace_batch=*/_SUCCESS"):
            texts = [path.read_text() for path in done.parent.glob("*.json")]
            batch = int(done.parent.name.split("-")[1])
            batches[batch] = sorted(json.loads(line)["id"] for text in texts for line in text.splitlines())
        return dict(sorted(batches.items()))

    def ids(self) -> list[int]:
        return sorted(n for numbers in self.read_batches().values() for n in numbers)

    def in_hand(self) -> None:
        until(self.sink().in_hand.exists, "a batch in the sink")


def build_session() -> SparkSession:
    from pyspark.sql import SparkSession

    small = {"spark.driver.memory": "1g", "spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "2"}
    return SparkSession.builder.master("local[2]").config(map={**small, **INTERPRETED}).getOrCreate()


def wait_for_error(query: Query) -> str:
    """Return the error of a run; an empty string if it continues or ended without error."""
    try:
        query.await_termination(60)
    except HeadraceError as error:
        return error.what
    return ""


def main(folder: Path) -> None:
    """Stop Spark under runs, one of them with a batch in progress, and restart; print the messages of the first runs."""
    spark = build_session()
    every = [Orders(folder / f"{kind}-{state}", kind) for kind, state in RUNS]
    for orders in every:
        orders.add(1, 2)
    queries = [orders.start(spark, trigger) for orders, trigger in zip(every, _TRIGGERS, strict=True)]
    until(lambda: all(query.last_progress for query in queries), "the first batches")
    held = every[-1]
    held.hold.touch()
    held.add(3)
    until(lambda: held.sink().in_hand.read_text() == "1", "the second batch in the sink")
    spark.stop()
    held.hold.unlink()
    messages = [wait_for_error(query) for query in queries]
    are_active = [query.is_active for query in queries]
    for query in queries:
        query.stop()
    spark = build_session()
    for orders in every:
        orders.add(4)
        orders.pipeline().run(spark)
    spark.stop()
    print(json.dumps({"said": messages, "are_active": are_active}))  # noqa: T201 - the test reads it


if __name__ == "__main__":
    main(Path(sys.argv[1]))
