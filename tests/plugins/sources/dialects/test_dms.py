"""Records of AWS DMS, handwritten from AWS's documentation and published records. No test runs DMS itself."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings, strategies as st
from tests.support import pipelines
from tests.support.bronze import write_lines
from tests.support.records import make_changes, record, rows_of

from headrace import Pipeline
from headrace.sdk.changes import COMMITTED, DELETED, ERROR, KEY, OP, POSITION, Changes
from headrace_sources.dialects.dms import DmsDialect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.one_spark]

STREAM = "dms.shop"


def dms(
    operation: str | None, data: Any = None, *, table: str = "public.orders", second: float = 0, **more: Any
) -> Any:
    """Return a record in DMS's format; ``more`` replaces fields of its metadata."""
    schema, _, name = table.partition(".")
    metadata = {
        "timestamp": f"2026-11-24T08:12:{second:09.6f}Z",
        "record-type": "data",
        "operation": operation,
        "partition-key-type": "primary-key" if operation == "load" else "schema-table",
        "schema-name": schema,
        "table-name": name,
        **({} if operation == "load" else {"transaction-id": 70974432245344}),
        **{field.replace("_", "-"): value for field, value in more.items()},
    }
    return {**({} if data is None else {"data": data}), "metadata": metadata}


def control(operation: str, table: str = "public.orders", **details: Any) -> Any:
    """Return a control record; DMS adds ``details`` with IncludeControlDetails."""
    found = dms(operation, table=table, record_type="control", partition_key_type="task-id")
    return {**({"control": details} if details else {}), **found}


def changes(spark: SparkSession, *values: Any, key: Any = ("id",)) -> Changes:
    records = [record(value, topic=STREAM, offset=i) for i, value in enumerate(values)]
    [found] = make_changes(spark, records, dialect=DmsDialect(), keyed=False, key=key).values()
    assert not found.envelope
    return found


def test_row_operations(spark: SparkSession) -> None:
    found = changes(
        spark,
        dms("load", {"id": 1, "item": "chair"}),
        dms("insert", {"id": 2, "item": "table"}, commit_timestamp="2026-11-24T08:12:31.500000Z"),
        dms("update", {"id": 2}),  # DMS omits null columns, except with IncludeNullAndEmpty
        dms("delete", {"id": 1, "item": None}),
    )
    assert rows_of(found, "id", "item", OP, DELETED, COMMITTED, ERROR) == [
        {"id": 1, "item": "chair", OP: "r", DELETED: False, COMMITTED: None, ERROR: None},
        {"id": 2, "item": "table", OP: "c", DELETED: False, COMMITTED: 1795507951500, ERROR: None},
        {"id": 2, "item": None, OP: "u", DELETED: False, COMMITTED: None, ERROR: None},
        {"id": 1, "item": None, OP: "d", DELETED: True, COMMITTED: None, ERROR: None},
    ]
    assert [row[KEY] for row in rows_of(found, KEY)] == [{"id": 1}, {"id": 2}, {"id": 2}, {"id": 1}]


def test_records_without_rows_have_reasons(spark: SparkSession) -> None:
    details: dict[str, Any] = {
        "table-def": {"columns": {"id": {"type": "INT32"}, "item": {"type": "STRING"}}, "primary-key": ["id"]}
    }
    found = changes(
        spark,
        control("create-table", ".awsdms_apply_exceptions"),
        control("create-table", **details),
        control("truncate-table"),
        dms("insert", {"ERROR": "x"}, table=".awsdms_apply_exceptions"),
        dms("upsert", {"id": 1}),
        dms(None, {"id": 1}),
        dms("update"),
        dms("delete"),
        {"data": {"id": 1}},
        b"{",
        dms("insert", {"id": 1}),
    )
    reasons = ["op-not-a-row"] * 4 + ["op-unknown", "op-missing", "after-missing", "after-missing", "op-missing"]
    assert [row[ERROR] for row in rows_of(found, ERROR)] == [*reasons, "undecodable", None]


def test_key_update_is_two_changes(spark: SparkSession) -> None:
    """With BeforeImageSettings, PostgreSQL's before-image has the key columns, and Oracle's has the changed columns."""
    found = changes(
        spark,
        dms("update", {"shop": 1, "id": 2, "item": "new"}) | {"before-image": {"id": 2, "shop": 1}},
        dms("update", {"shop": 1, "id": 3, "item": "moved"}) | {"before-image": {"id": 2}},
        dms("update", {"shop": 1, "id": 3, "item": "newer"}) | {"before-image": {}},
        key=("shop", "id"),
    )
    frame = found.frame.orderBy("_headrace_offset", DELETED)
    rows = [(row[KEY].asDict(), row[OP], row["item"]) for row in frame.collect()]
    assert rows == [
        ({"shop": 1, "id": 2}, "u", "new"),
        ({"shop": 1, "id": 3}, "u", "moved"),
        ({"shop": 1, "id": 2}, "d", "moved"),
        ({"shop": 1, "id": 3}, "u", "newer"),
    ]
    assert found.frame.select(POSITION).distinct().count() == 4


@pytest.mark.nightly
@given(st.data())
@settings(max_examples=4)
def test_records_sort_by_timestamp_then_offset(spark: SparkSession, data: st.DataObject) -> None:
    """The order does not depend on partitions: full-load records of a key and its changes can be in different ones."""
    times = data.draw(st.lists(st.sampled_from([0, 0.5, 1.000001, 9, 10, 59.9]), min_size=2, max_size=12))
    partitions = data.draw(st.lists(st.integers(0, 2), min_size=len(times), max_size=len(times)))
    offsets = [count(data.draw(st.integers(0, 1000))) for _ in range(3)]
    records = [
        record(dms("update", {"id": 1, "n": n}, second=time), topic=STREAM, offset=next(offsets[partition]))
        | {"partition": partition}
        for n, (time, partition) in enumerate(zip(times, partitions, strict=True))
    ]
    [found] = make_changes(spark, records, dialect=DmsDialect(), keyed=False, key=("id",)).values()
    in_order = [n for _, n in sorted(map(tuple, found.frame.select(POSITION, "n").collect()))]
    assert in_order == sorted(range(len(times)), key=lambda n: (times[n], records[n]["offset"], partitions[n]))


def pipeline_of(folder: Path, rule: dict[str, Any]) -> Pipeline:
    source = {"files": {"path": str(folder / "bronze"), "format": "json"}}
    return pipelines.pipeline(folder, "iceberg", source=source, tables=[{"source": STREAM, **rule}], transforms=[])


def write_records(folder: Path, offset: int, *values: Any) -> None:
    write_lines(folder / "bronze/topics" / STREAM / f"partition=0/{STREAM}+0+{offset:010d}.json", values)


def test_table_from_first_control_record_to_second_full_load(spark: SparkSession, tmp_path: Path) -> None:
    types = {"price": "decimal(10,2)", "at": "timestamp"}
    pipeline = pipeline_of(tmp_path, {"target": "orders", "key": "id", "columns": types})
    write_records(tmp_path, 0, control("create-table", ".awsdms_apply_exceptions"), control("create-table"))
    batches: list[Any] = []
    assert pipeline.run(spark, on_progress=batches.append).tables == ()
    assert (batches[0].notices, batches[0].left_out) == ({STREAM: "control records of AWS DMS"}, {STREAM: 2})
    row = {"id": 1, "price": 12.5, "at": "2026-01-31T12:00:00Z"}
    write_records(
        tmp_path,
        100,
        dms("load", row | {"id": 5}),
        dms("update", row | {"id": 6}, second=1) | {"before-image": {"id": 5}},
        dms("load", row),
        dms("load", row | {"id": 2}),
        dms("update", row | {"price": 7}, second=1),
        dms("delete", {"id": 2}, second=2),
        dms("insert", row | {"id": 3}, table="public.people", second=3),
        control("add-column"),
    )
    (summary,) = pipeline.run(spark).tables
    assert (summary.rows_in, summary.dead_letters) == (9, 2), "an update of the key is two"
    at = datetime(2026, 1, 31, 12)  # noqa: DTZ001
    assert pipelines.rows(pipeline, spark, "orders", "id") == [
        {"id": 1, "price": Decimal("7.00"), "at": at},
        {"id": 6, "price": Decimal("12.50"), "at": at},
    ]
    dead_letters = pipeline.read("dead_letters", spark=spark).orderBy("offset").select("offset", "reason").collect()
    assert [tuple(dead_letter) for dead_letter in dead_letters] == [(106, "other-table"), (107, "op-not-a-row")]
    # The second full load repeats the first rows with newer timestamps, so they replace the update.
    write_records(tmp_path, 200, dms("load", row | {"id": 2}, second=9), dms("load", row, second=9))
    pipeline.run(spark)
    found = {row["id"]: row["price"] for row in pipelines.rows(pipeline, spark, "orders", "id")}
    assert found == dict.fromkeys((1, 2, 6), Decimal("12.50"))


@pytest.mark.nightly
def test_tables_of_one_stream_have_separate_keys(spark: SparkSession, tmp_path: Path) -> None:
    fields = ["metadata.schema-name", "metadata.table-name"]
    key = {"public.lines": ["order_id", "line"], "*": "id"}
    pipeline = pipeline_of(tmp_path, {"route.by.field": fields, "target": "shop.{table}", "key": key})
    line = {"order_id": 1, "line": 1, "item": "chair"}
    write_records(
        tmp_path,
        0,
        control("create-table", ".awsdms_apply_exceptions"),
        control("create-table"),
        control("create-table", "public.people"),
        dms("load", {"id": 1, "name": "Arp"}),
        dms("load", line, table="public.lines"),
        dms("load", line | {"line": 2}, table="public.lines"),
        dms("delete", line | {"line": 2}, table="public.lines", second=1),
        dms("update", {"id": 1, "name": "Höch"}, second=1),
        dms("update", line | {"item": "table"}, table="public.lines", second=2),
    )
    summary = pipeline.run(spark)
    assert pipelines.rows(pipeline, spark, "shop.orders", "id") == [{"id": 1, "name": "Höch"}]
    assert pipelines.rows(pipeline, spark, "shop.lines", "line") == [line | {"item": "table"}]
    assert {table.table: table.dead_letters for table in summary.tables} == {
        "shop.shop": 1,  # records whose table DMS does not name count for the stream's own table
        "shop.orders": 1,
        "shop.lines": 0,
        "shop.people": 1,
    }
