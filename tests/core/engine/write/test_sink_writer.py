"""Writes of rows to in-memory sinks, without a pipeline."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F
from tests.support.memory_sink import MemorySink

from headrace.checkpoint.layout import Checkpoint
from headrace.config.maintenance_options import Maintenance
from headrace.config.settings import Settings
from headrace.engine.plan.pipeline_plan import Plan
from headrace.engine.plan.routing import Routes
from headrace.engine.write.sink_writer import SinkWriter
from headrace.engine.write.table_plan import BatchMarks, TablePlan
from headrace.errors import RetriableError
from headrace.sdk.sink import Batch, Sink, Table, TableMode, WriteResult
from headrace.spark.sessions import Sessions
from headrace.upsert.table_state import TableState
from headrace_sources import FilesSource

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.steps, pytest.mark.one_spark]

TABLE = Table("shop.orders", ("id",))
ROWS = "id int, name string, _headrace_deleted boolean, _headrace_position string"


class BusySink(MemorySink):
    """Sink whose first write fails with a retriable error."""

    name = "busy"
    attempts: list[str]

    def write(self, table: Table, rows: DataFrame, batch: Batch) -> WriteResult:
        self.attempts.append(batch.pipeline)
        if len(self.attempts) < 2:
            raise RetriableError("is busy")
        return super().write(table, rows, batch)


def memory(kind: type[MemorySink] = MemorySink) -> MemorySink:
    return kind(store=uuid.uuid4().hex)


def writer(spark: SparkSession, *sinks: Sink, is_maintained: bool = True) -> SinkWriter:
    source, settings = FilesSource(path="x", format="json"), Settings(maintenance=Maintenance(enabled=is_maintained))
    return SinkWriter(Plan("shop", source, sinks, "checkpoint", Routes([]), (), settings=settings), Sessions(spark))


def make_plan(modes: dict[Sink, TableMode], **changed: Any) -> TablePlan:
    values: dict[str, Any] = {"table": TABLE, "marks": BatchMarks("checkpoint", 7), "columns": ("id", "name")}
    return TablePlan(modes=modes, **{**values, **changed})


class RecordingSink(MemorySink):
    """Sink that records the batches that it receives."""

    name = "noting"
    batches: list[Batch]

    def write(self, table: Table, rows: DataFrame, batch: Batch) -> WriteResult:
        self.batches.append(batch)
        return super().write(table, rows, batch)


def rows_of(spark: SparkSession, sink: Sink) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in sink.read_back(spark, TABLE).select("id", "name").collect())


def make_state(spark: SparkSession, folder: Path) -> TableState:
    return TableState(Checkpoint(spark, str(folder), "shop"), "shop.orders", 3600)


def test_each_sink_gets_rows_of_its_mode_and_repeats_are_skipped(spark: SparkSession) -> None:
    table, log = memory(), memory()
    rows = spark.createDataFrame([(1, "a", False, "0A"), (2, "b", False, "0B")], ROWS)
    modes: dict[Sink, TableMode] = {table: "upsert", log: "changelog"}
    frames: dict[TableMode, DataFrame] = {"upsert": rows.where("id = 1"), "changelog": rows}
    write = writer(spark, table, log).write
    assert [result.skipped for result in write(make_plan(modes), frames)] == [False, False]
    assert (rows_of(spark, table), rows_of(spark, log)) == ([(1, "a")], [(1, "a"), (2, "b")])
    assert [result.skipped for result in write(make_plan(modes), frames)] == [True, True]


def test_write_with_a_retriable_error_is_retried(spark: SparkSession) -> None:
    sink = memory(BusySink)
    assert isinstance(sink, BusySink)
    sink.attempts = []
    rows = spark.createDataFrame([(1, "a", False, "0A")], ROWS)
    writer(spark, sink).write(make_plan({sink: "upsert"}), {"upsert": rows})
    assert (sink.attempts, rows_of(spark, sink)) == (["checkpoint"] * 2, [(1, "a")])


@pytest.mark.parametrize("is_maintained", [True, False])
def test_batch_states_whether_the_run_maintains_the_table(
    spark: SparkSession, tmp_path: Path, is_maintained: bool
) -> None:
    sink = memory(RecordingSink)
    assert isinstance(sink, RecordingSink)
    sink.batches = []
    rows = spark.createDataFrame([(1, "a", False, "0A")], ROWS)
    received = writer(spark, sink, is_maintained=is_maintained)
    received.write(make_plan({sink: "upsert"}), {"upsert": rows})
    state = make_state(spark, tmp_path)
    received.delete(make_plan({sink: "upsert"}), sink, rows, "tombstones", state)
    received.truncate(make_plan({sink: "upsert"}, truncated_sinks=(sink,)), {"eu": "0B"}, state)
    assert [batch.is_maintained for batch in sink.batches] == [is_maintained] * 3


def test_unavailable_values_are_filled_from_the_table_of_each_sink(spark: SparkSession) -> None:
    one, other = memory(), memory()
    write = writer(spark, one, other).write
    for sink, name in ((one, "one"), (other, "other")):
        stored = spark.createDataFrame([(1, name, False, "0A")], ROWS)
        sink.write(TABLE, stored, Batch("checkpoint", 6, "upsert"))
    update = spark.createDataFrame(
        [(1, None, False, "0B", {"name": ""})], f"{ROWS}, _headrace_origin map<string,string>"
    )
    write(make_plan({one: "upsert", other: "upsert"}, unavailable=("name",)), {"upsert": update})
    assert (rows_of(spark, one), rows_of(spark, other)) == ([(1, "one")], [(1, "other")])


def test_truncate_removes_older_rows_of_its_source_once(spark: SparkSession, tmp_path: Path) -> None:
    sink, state = memory(), make_state(spark, tmp_path)
    state.sources.add(["eu", "us"])
    stored = spark.createDataFrame([(1, "old", False, "0A"), (2, "new", False, "0C")], ROWS)
    others = spark.createDataFrame(
        [(3, "us", False, "0A", "us"), (4, "us, filled", False, "0A", "us")], f"{ROWS}, source string"
    )
    position = state.sources.tag(F.col("_headrace_position"), F.col("source"))
    filled = F.concat(position, F.when(F.col("id") == 4, "!").otherwise(""))
    stored = stored.unionAll(others.withColumn("_headrace_position", filled).drop("source"))
    sink.write(TABLE, stored, Batch("checkpoint", 6, "upsert"))
    for _ in range(2):
        writer(spark, sink).truncate(make_plan({sink: "upsert"}, truncated_sinks=(sink,)), {"eu": "0B"}, state)
        assert rows_of(spark, sink) == [(2, "new"), (3, "us"), (4, "us, filled")]
    writer(spark, sink).truncate(
        make_plan({sink: "upsert"}, marks=BatchMarks("checkpoint", 8), truncated_sinks=(sink,)), {"us": "0B"}, state
    )
    assert rows_of(spark, sink) == [(2, "new")]
