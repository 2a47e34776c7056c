"""What a sink asks of the engine: the records of its rows, tombstones, and to be asked itself what is due."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.memory_sink import MemorySink
from tests.support.record_log import LogRecord, RecordLog, append

from headrace import FatalError, Pipeline, RetriableError
from headrace.sdk import changes as C
from headrace.sdk.sink import Batch, Capabilities, Table, WriteResult
from headrace_sources.formats.json.json_format import JsonFormat
from headrace_transforms import Unwrap

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.one_spark]

TOPIC = "shop.public.people"


class CuriousSink(MemorySink):
    """Appends, and keeps what it was told of the records."""

    name = "curious"
    capabilities = Capabilities(schema_evolution=True, exactly_once=True)
    columns: Collection[str] = (C.TOPIC, C.PARTITION, C.OFFSET, C.TIMESTAMP, C.KEY, C.TOMBSTONE)

    def record_columns(self) -> Collection[str]:
        return self.columns

    def write(self, table: Table, rows: DataFrame, batch: Batch) -> WriteResult:
        return super().write(table, rows.withColumnRenamed(C.TIMESTAMP, "at"), batch)


class TendedSink(MemorySink):
    """Counts how often it was asked, and answers with what a test gives it."""

    name = "tended"

    def __init__(self, answers: Callable[[int], float | None], **options: Any) -> None:
        super().__init__(**options)
        self.answers, self.asked = answers, list[str]()

    def on_idle(self, spark: SparkSession, pipeline: str) -> float | None:
        self.asked.append(pipeline)
        return self.answers(len(self.asked))


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """An insert, an update in another partition, a delete and its tombstone, and one of a row that came earlier."""
    path = tmp_path / "log.jsonl"

    def change(offset: int, op: str, name: str | None, **more: Any) -> LogRecord:
        after = name and {"id": 1, "name": name}
        source = {"connector": "postgresql", "lsn": offset, "ts_ms": offset}
        value = {"before": {"id": 1, "name": "b"}, "after": after, "op": op, "source": source}
        return LogRecord(TOPIC, offset, {"id": 1}, value, time=1000 * offset, **more)

    records = [change(0, "c", "a"), change(1, "u", "b", partition=3), change(2, "d", None)]
    append(path, [*records, LogRecord(TOPIC, 3, {"id": 1}, None), LogRecord(TOPIC, 4, {"id": 2}, None)])
    return path


def pipeline(log: Path, *sinks: MemorySink, transforms: Any = ()) -> Pipeline:
    checkpoint = str(log.parent / uuid.uuid4().hex)
    return Pipeline(
        "people", RecordLog(path=str(log)), list(sinks), checkpoint, value=JsonFormat(), transforms=transforms
    )


def rows(sink: MemorySink) -> list[dict[str, Any]]:
    return list(sink.versions(Table(TOPIC))[-1].rows)


def test_a_sink_is_told_of_the_records_and_another_beside_it_is_not(log: Path, spark: SparkSession) -> None:
    store = uuid.uuid4().hex
    curious, plain = CuriousSink(store=store), MemorySink(store=f"{store}-plain", mode="append")
    pipeline(log, curious, plain).run(spark)
    told = [
        (row[C.TOPIC], row[C.PARTITION], row[C.OFFSET], row[C.KEY]["id"], row[C.TOMBSTONE], row["op"])
        for row in sorted(rows(curious), key=lambda row: int(row[C.OFFSET]))
    ]
    assert told == [
        (TOPIC, 0, 0, 1, False, "c"),
        (TOPIC, 3, 1, 1, False, "u"),
        (TOPIC, 0, 2, 1, False, "d"),
        (TOPIC, 0, 3, 1, True, None),
        (TOPIC, 0, 4, 2, True, None),
    ]
    assert [row["at"].timestamp() for row in rows(curious)][:3] == [0, 1, 2]
    assert [row["op"] for row in rows(plain)] == ["c", "u", "d"]
    assert {name for row in rows(plain) for name in row if name.startswith(C.PREFIX)} == {C.POSITION}


def test_tombstones_for_one_sink_change_nothing_for_one_that_upserts(log: Path, spark: SparkSession) -> None:
    store = uuid.uuid4().hex
    curious, table = CuriousSink(store=store, mode="changelog"), MemorySink(store=f"{store}-table")
    append(
        log,
        [
            LogRecord(
                TOPIC,
                5,
                {"id": 2},
                {
                    "before": None,
                    "after": {"id": 2, "name": "c"},
                    "op": "c",
                    "source": {"connector": "postgresql", "lsn": 9, "ts_ms": 9},
                },
            )
        ],
    )
    run = pipeline(log, curious, table, transforms=[Unwrap({"delete.tombstone.handling.mode": "rewrite"})])
    run.run(spark)
    kept = {(row["id"], row["name"], row["__deleted"]) for row in rows(table)}
    assert kept == {(1, "b", "true"), (2, "c", "false")}
    assert [row[C.OFFSET] for row in rows(curious) if row[C.TOMBSTONE]] == [3, 4]


def test_a_sink_is_asked_when_a_run_begins_and_as_often_as_it_says(log: Path, spark: SparkSession) -> None:
    sink = TendedSink(lambda asked: 0.05 if asked < 3 else None, store=uuid.uuid4().hex, mode="append")
    run = pipeline(log, sink)
    run.run(spark)
    assert len(sink.asked) == 1
    (table,) = sink.versions(Table(TOPIC))
    query = run.start(spark, "1 hour")
    try:
        wait_until(lambda: len(sink.asked) == 3 or not query.is_active)
    finally:
        query.stop()
    assert query.exception is None
    (mark,) = table.batches
    assert set(sink.asked) == {str(mark).rpartition(":")[0]}, "by the name that its batches have"


def test_what_is_worth_another_try_is_asked_again_and_other_errors_end_the_run(log: Path, spark: SparkSession) -> None:
    def answer(asked: int) -> float:
        if asked in (2, 3):
            raise RetriableError("the store is away")
        if asked > 4:
            raise FatalError("the store is gone")
        return 0.05

    sink = TendedSink(answer, store=uuid.uuid4().hex, mode="append")
    query = pipeline(log, sink).start(spark, "1 hour")
    wait_until(lambda: not query.is_active)
    assert len(sink.asked) == 5
    assert "sink tended: the store is gone" in str(query.exception)


def wait_until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not is_so() and time.monotonic() < deadline:
        time.sleep(0.02)
