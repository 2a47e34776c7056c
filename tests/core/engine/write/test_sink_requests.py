"""Requests of a sink to the engine: record columns, tombstones, and calls while the run is idle."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.memory_sink import MemorySink
from tests.support.record_log import LogRecord, RecordLog, append
from tests.support.tiers import nightly_after

from headrace import ConfigError, FatalError, HeadraceError, Pipeline, RetriableError, Settings
from headrace.engine.plan import retry
from headrace.sdk import changes as C
from headrace.sdk.sink import Batch, Capabilities, Table, WriteResult
from headrace_sources.formats.json.json_format import JsonFormat
from headrace_transforms import Unwrap

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.one_spark]

TOPIC = "shop.public.people"


class RecordColumnsSink(MemorySink):
    """Sink that appends rows with the requested record columns."""

    name = "curious"
    capabilities = Capabilities(schema_evolution=True, exactly_once=True)
    columns: Collection[str] = (C.TOPIC, C.PARTITION, C.OFFSET, C.TIMESTAMP, C.KEY, C.TOMBSTONE)

    def record_columns(self) -> Collection[str]:
        return self.columns

    def write(self, table: Table, rows: DataFrame, batch: Batch) -> WriteResult:
        return super().write(table, rows.withColumnRenamed(C.TIMESTAMP, "at"), batch)


class IdleSink(MemorySink):
    """Sink that records its idle calls and returns the delays of a test."""

    name = "tended"

    def __init__(self, delays: Callable[[int], float | None], **options: Any) -> None:
        super().__init__(**options)
        self.delays, self.calls = delays, list[str]()

    def on_idle(self, spark: SparkSession, pipeline: str, writes: Callable[[str], bool]) -> float | None:
        self.calls.append(pipeline)
        return self.delays(len(self.calls))


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Write a log: an insert, an update in another partition, a delete with its tombstone, and another tombstone."""
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


def test_record_columns_are_passed_only_to_the_sink_that_requests_them(log: Path, spark: SparkSession) -> None:
    store = uuid.uuid4().hex
    requesting, plain = RecordColumnsSink(store=store), MemorySink(store=f"{store}-plain", mode="append")
    pipeline(log, requesting, plain).run(spark)
    received = [
        (row[C.TOPIC], row[C.PARTITION], row[C.OFFSET], row[C.KEY]["id"], row[C.TOMBSTONE], row["op"])
        for row in sorted(rows(requesting), key=lambda row: int(row[C.OFFSET]))
    ]
    assert received == [
        (TOPIC, 0, 0, 1, False, "c"),
        (TOPIC, 3, 1, 1, False, "u"),
        (TOPIC, 0, 2, 1, False, "d"),
        (TOPIC, 0, 3, 1, True, None),
        (TOPIC, 0, 4, 2, True, None),
    ]
    assert [row["at"].timestamp() for row in rows(requesting)][:3] == [0, 1, 2]
    assert [row["op"] for row in rows(plain)] == ["c", "u", "d"]
    assert {name for row in rows(plain) for name in row if name.startswith(C.PREFIX)} == {C.POSITION}


def test_tombstones_for_one_sink_do_not_affect_an_upserting_sink(log: Path, spark: SparkSession) -> None:
    store = uuid.uuid4().hex
    requesting, table = RecordColumnsSink(store=store, mode="changelog"), MemorySink(store=f"{store}-table")
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
    run = pipeline(log, requesting, table, transforms=[Unwrap({"delete.tombstone.handling.mode": "rewrite"})])
    run.run(spark)
    kept = {(row["id"], row["name"], row["__deleted"]) for row in rows(table)}
    assert kept == {(1, "b", "true"), (2, "c", "false")}
    assert [row[C.OFFSET] for row in rows(requesting) if row[C.TOMBSTONE]] == [3, 4]


def test_two_sinks_of_a_kind_have_their_own_counts(log: Path, spark: SparkSession) -> None:
    first, second = (MemorySink(store=uuid.uuid4().hex, mode=mode) for mode in ("upsert", "append"))
    run = pipeline(log, first, second, transforms=[Unwrap({"delete.tombstone.handling.mode": "rewrite"})])
    append(log, [LogRecord(TOPIC, 5, {"id": 3}, "no object")])
    run.settings = Settings.model_validate({"max.dead.letters": 1})
    run.__post_init__()
    summary = run.run(spark)
    assert [(table.sink, table.dead_letters) for table in summary.tables] == [("memory", 1), ("memory-2", 1)]
    assert [table.sink for table in run.status(spark).tables] == ["memory", "memory-2"]
    counts = [run.read(TOPIC, sink=name, spark=spark).count() for name in ("memory", "memory-2")]
    assert counts == [len(rows(first)), len(rows(second))]
    assert counts[0] < counts[1]
    with pytest.raises(ConfigError, match="its sinks: memory, memory-2"):
        run.read(TOPIC, sink="memory-3", spark=spark)


def test_sink_is_called_at_the_start_and_after_each_requested_delay(log: Path, spark: SparkSession) -> None:
    sink = IdleSink(lambda calls: 0.05 if calls < 3 else None, store=uuid.uuid4().hex, mode="append")
    run = pipeline(log, sink)
    run.run(spark)
    assert len(sink.calls) == 1
    (table,) = sink.versions(Table(TOPIC))
    query = run.start(spark, "1 hour")
    try:
        wait_until(lambda: len(sink.calls) == 3 or not query.is_active)
    finally:
        query.stop()
    assert query.exception is None
    (mark,) = table.batches
    assert set(sink.calls) == {str(mark).partition(":")[0]}, "the name must equal that of its batches"


@pytest.mark.nightly
def test_retriable_error_of_an_idle_call_is_shown_and_retried_and_others_end_the_run(
    log: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retry, "FIRST_PAUSE_SECONDS", 0.0)
    errors = list[HeadraceError]()

    def delay(_: int) -> float:
        if errors:
            raise errors[0]
        return 0.05

    query = pipeline(log, IdleSink(delay, store=uuid.uuid4().hex, mode="append")).start(spark, "1 hour")
    errors.append(RetriableError("the store is away"))
    wait_until(lambda: query.status.error is not None)
    assert query.status.error == "sink tended: the store is away"
    errors.clear()
    wait_until(lambda: query.status.error is None)
    assert query.is_active
    errors.append(FatalError("the store is gone"))
    wait_until(lambda: not query.is_active)
    assert "sink tended: the store is gone" in str(query.exception)


@pytest.mark.parametrize("failures", nightly_after(1, [4, 8]))
def test_first_idle_call_that_fails_is_repeated_after_the_batches(
    log: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, failures: int
) -> None:
    """Each call has four attempts."""
    monkeypatch.setattr(retry, "FIRST_PAUSE_SECONDS", 0.0)

    def delay(calls: int) -> None:
        if calls <= failures:
            raise RetriableError("the catalog is busy")

    sink = IdleSink(delay, store=uuid.uuid4().hex, mode="append")
    run = pipeline(log, sink)
    if failures == 4:
        run.run(spark)
    else:
        with pytest.raises(RetriableError, match="sink tended: the catalog is busy"):
            run.run(spark)
    assert len(rows(sink)) == 3


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.02)
