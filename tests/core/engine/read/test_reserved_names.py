"""Reserved column names of headrace and of sinks, which are rejected before a batch is read or written."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from pyspark.sql import types as T

from headrace.config.settings import Settings
from headrace.engine.plan.pipeline_plan import Plan
from headrace.engine.plan.routing import Routes
from headrace.engine.read.reserved_names import reject_empty_structs, reject_own_names, reject_reserved_names
from headrace.engine.write.table_plan import BatchMarks, TablePlan
from headrace.errors import DataError
from headrace.sdk.changes import Changes
from headrace.sdk.sink import Sink
from headrace_sinks import ConsoleSink, FilesSink, HudiSink, IcebergSink
from headrace_sources import FilesSource

ICEBERG, HUDI = IcebergSink(warehouse="lake"), HudiSink(path="lake")


def decide(column: str, *sinks: Sink) -> TablePlan:
    schema = T.StructType().add("id", T.IntegerType()).add(column, T.StringType())
    frame = cast("Any", SimpleNamespace(columns=schema.names, schema=schema, sparkSession=None))
    source = FilesSource(path="x", format="json")
    plan = Plan("shop", source, sinks, "checkpoint", Routes([]), (), settings=Settings())
    return TablePlan.decide(plan, "shop.orders", Changes(frame, envelope=False), BatchMarks("checkpoint", 7))


@pytest.mark.parametrize(
    ("sink", "name"),
    [
        (ICEBERG, "_deleted"),
        (ICEBERG, "_row_id"),
        (ICEBERG, "_pos"),
        (ICEBERG, "_FILE"),
        (ICEBERG, "_Partition"),
        (ICEBERG, "_spec_id"),
        (HUDI, "_hoodie_commit_time"),
        (HUDI, "_HOODIE_IS_DELETED"),
        (HUDI, "_hoodie_of_ours"),
        (FilesSink(path="out"), "_HEADRACE_BATCH"),
    ],
)
def test_column_with_a_reserved_name_of_the_sink_is_rejected(sink: Sink, name: str) -> None:
    with pytest.raises(DataError) as refused:
        decide(name, sink)
    assert str(refused.value) == (
        f"table shop.orders: the column name {name!r} is reserved by the sink {sink.name!r}\n"
        f"  fix: rename it under `transforms:`, for example `- rename: {{columns: {{{name}: {name.strip('_')}}}}}`"
    )


def test_reserved_names_come_from_the_sink() -> None:
    with pytest.raises(DataError, match="athena does not support the column name 'order id'"):
        decide("order id", FilesSink(path="out"), IcebergSink(warehouse="lake", readers=["athena"]))
    for sink in (HUDI, FilesSink(path="out", format="avro")):
        with pytest.raises(DataError, match="does not allow the column name 'order-id'"):
            decide("order-id", sink)


@pytest.mark.parametrize("sink", [HUDI, FilesSink(path="out"), ConsoleSink()])
def test_reserved_name_of_one_sink_is_valid_in_others(sink: Sink) -> None:
    assert "_deleted" in decide("_deleted", sink).columns
    reject_reserved_names(["id", "pos", "file", "deleted_", "hoodie", "_change_type"], "t", [sink])


@pytest.mark.parametrize("name", ["_headrace_op", "_headrace_note", "_HEADRACE_POSITION"])
def test_event_column_with_the_prefix_of_headrace_is_rejected(name: str) -> None:
    with pytest.raises(DataError, match=f"topic t: the column name '{name}' is reserved") as refused:
        reject_own_names(["id", name], "t", envelope=True)
    assert f"`- rename: {{columns: {{{name}: {name[10:]}}}}}` before `unwrap`" in str(refused.value)
    with pytest.raises(DataError, match="in the producer of the events"):
        reject_own_names(["id", name], "t", envelope=False)


@pytest.mark.parametrize(
    ("kind", "path"),
    [
        (T.StructType(), "extra"),
        (T.StructType().add("id", T.IntegerType()).add("inner", T.StructType()), "extra.inner"),
        (T.ArrayType(T.ArrayType(T.StructType())), "extra"),
        (T.MapType(T.StringType(), T.StructType().add("inner", T.StructType())), "extra.inner"),
    ],
)
def test_struct_without_fields_is_rejected_with_its_path(kind: T.DataType, path: str) -> None:
    with pytest.raises(DataError) as raised:
        reject_empty_structs(T.StructType().add("id", T.IntegerType()).add("extra", kind).fields, "shop.items")
    assert str(raised.value) == (
        f"table shop.items: the column {path!r} is a struct without fields, which no table can store\n"
        "  fix: exclude the topic, or remove the field in the producer of the events"
    )


def test_struct_with_fields_is_accepted() -> None:
    kind = T.ArrayType(T.StructType().add("id", T.IntegerType()))
    reject_empty_structs(T.StructType().add("extra", kind).fields, "shop.items")
