"""Tables with many columns: the number of Java calls for planning, and column names that need quoting in SQL."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from py4j.java_gateway import GatewayClient
from pyspark.sql import types as T

from headrace.engine.write import upsert_steps
from headrace.engine.write.table_plan import BatchMarks, TablePlan
from headrace.sdk import SchemaLog, Subject
from headrace.sdk.changes import Changes
from headrace.sdk.columns import select_texts
from headrace.sdk.schemas import project
from headrace.sdk.sink import Table
from headrace.spark.columns import any_of, quote_name
from headrace.spark.sessions import Sessions
from headrace.upsert.deduplicate import latest_per_key
from headrace.upsert.fill_unavailable import fill_from_older
from headrace.upsert.unavailable import mark_unavailable
from headrace_sources.dialects.unavailable_values import placeholder_tests
from headrace_sources.formats.json.embedded_schema import open_by_writers
from headrace_transforms.unwrap import Unwrap

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.one_spark]

NARROW, WIDE = 10, 60
HOSTILE = (
    "a.b", "back`tick", "it's", 'a "quote"', "a space", "select", "from", "*", "a,b", "x AS y", "${spark.master}", "${env:PATH}",
    "back\\slash", "new\nline", "-- no comment", "/* nor this */", "äöü 列", "1st", "a\x1eb", "null", "`", "``",
)  # fmt: skip
OWN = "_headrace_error string, _headrace_deleted boolean, _headrace_position string"


@contextmanager
def java_calls() -> Iterator[Callable[[], int]]:
    """Yield a function that returns the number of calls to Java, without those that free an object."""
    count, send = 0, GatewayClient.send_command

    def count_call(self: Any, command: str, *args: Any, **kwargs: Any) -> Any:
        nonlocal count
        count += not command.startswith("m\n")
        return send(self, command, *args, **kwargs)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(GatewayClient, "send_command", count_call)
        yield lambda: count


def columns_of(names: tuple[str, ...] | list[str]) -> str:
    return ", ".join(f"{quote_name(name)} string" for name in names)


def make_names(width: int) -> list[str]:
    return [f"c{i}" for i in range(width)]


def plan_of(names: list[str]) -> TablePlan:
    return TablePlan(Table("shop.wide", ("id",)), BatchMarks("checkpoint", 1), {}, ("id", *names))


def flat(spark: SparkSession, names: list[str]) -> DataFrame:
    return spark.createDataFrame([], f"id int, {columns_of(names)}, {OWN}")


def envelopes(spark: SparkSession, names: list[str]) -> Changes:
    key = "_headrace_key struct<id int>"
    frame = spark.createDataFrame([], f"after struct<id int, {columns_of(names)}>, op string, {key}, {OWN}")
    return Changes(frame, envelope=True)


def accept(spark: SparkSession, names: list[str]) -> Callable[[], object]:
    rows, plan = flat(spark, names), plan_of(names)
    return lambda: upsert_steps.accept_rows(rows, plan)


def deduplicate(spark: SparkSession, names: list[str]) -> Callable[[], object]:
    rows = flat(spark, names)
    return lambda: latest_per_key(rows, ["id"])


def project_on_table(spark: SparkSession, names: list[str]) -> Callable[[], object]:
    rows = flat(spark, names)
    rows.schema  # noqa: B018 - PySpark caches the schema
    return lambda: project(rows, rows.schema)


def unwrap(spark: SparkSession, names: list[str]) -> Callable[[], object]:
    changes = envelopes(spark, names)
    return lambda: Unwrap().apply(changes)


def decode(spark: SparkSession, names: list[str]) -> Callable[[], object]:
    """Return a function that decodes JSON with an embedded schema."""
    kinds: list[dict[str, Any]] = [
        {"type": "string"},
        {"type": "bytes", "name": "org.apache.kafka.connect.data.Decimal", "parameters": {"scale": "2"}},
        {"type": "int64", "name": "io.debezium.time.MicroTimestamp"},
    ]
    fields = [{"field": name, **kinds[i % len(kinds)]} for i, name in enumerate(names)]
    log, subject = SchemaLog(), Subject("wide", "value")
    log.add_writer(subject, "1", json.dumps({"schema": {"type": "struct", "fields": fields}}).removesuffix("}"))
    frame = spark.createDataFrame([], "value binary")

    def decode_again() -> DataFrame:
        reader = open_by_writers(subject, log, {})  # every batch opens a new reader
        return reader.decode(frame, "value", reader.schema, "error")

    return decode_again


def mark_unavailable_values(spark: SparkSession, names: list[str]) -> Callable[[], object]:
    changes = envelopes(spark, names)
    return lambda: mark_unavailable(changes, placeholder_tests(dict.fromkeys(names, T.StringType()), "left out"))


def fill_unavailable_values(spark: SparkSession, names: list[str]) -> Callable[[], object]:
    rows = spark.createDataFrame(
        [], f"id int, {columns_of(names)}, {OWN}, _headrace_unchanged struct<c0 boolean, c1 boolean>"
    )
    return lambda: fill_from_older(rows, ["id"])


@pytest.mark.parametrize("step", [decode, mark_unavailable_values, fill_unavailable_values])
def test_step_that_derives_columns_looks_them_up_only_once(
    spark: SparkSession, step: Callable[[SparkSession, list[str]], Callable[[], object]]
) -> None:
    calls = []
    for width in (NARROW, NARROW, WIDE, WIDE):
        run = step(spark, make_names(width))
        with java_calls() as count:
            run()
            calls.append(count())
    assert calls[3] == calls[1] > 0


@pytest.mark.parametrize("step", [accept, deduplicate, project_on_table, unwrap])
def test_number_of_java_calls_does_not_depend_on_the_columns(
    spark: SparkSession, step: Callable[[SparkSession, list[str]], Callable[[], object]]
) -> None:
    calls = []
    for width in (NARROW, NARROW, WIDE):  # the first run includes lookups that happen once
        run = step(spark, make_names(width))
        with java_calls() as count:
            run()
            calls.append(count())
    assert calls[2] == calls[1] > 0


def test_special_column_names_are_selected_unchanged(spark: SparkSession) -> None:
    session = Sessions(spark).of("hostile")
    values = [str(i) for i in range(len(HOSTILE))]
    rows = session.createDataFrame([tuple(values)], columns_of(HOSTILE))
    for several in (HOSTILE, [name for name in HOSTILE if "\x1e" not in name]):
        selected = select_texts(rows, [quote_name(name) for name in several])
        assert selected.columns == list(several)
        assert selected.first().asDict() == {name: values[HOSTILE.index(name)] for name in several}  # type: ignore[union-attr]


def test_rows_with_special_column_names_are_processed(spark: SparkSession) -> None:
    session, names = Sessions(spark).of("hostile"), list(HOSTILE)
    values = [str(i) for i in range(len(names))]
    frame = session.createDataFrame(
        [((1, *values), "c", (1,), None, False, "0A")], envelopes(session, names).frame.schema
    )
    rows = upsert_steps.accept_rows(Unwrap().apply(Changes(frame, envelope=True)).frame, plan_of(names))
    projected = project(rows, rows.schema)
    assert projected.columns == ["id", *names, "_headrace_deleted", "_headrace_position"]
    assert [tuple(row) for row in projected.collect()] == [(1, *values, False, "0A")]


def test_names_that_differ_in_case_are_distinct_in_case_sensitive_sessions(spark: SparkSession) -> None:
    session = Sessions(spark, {"spark.sql.caseSensitive": "true"}).of("case")
    rows = session.createDataFrame([("lower", "upper")], "id string, ID string")
    assert [tuple(row) for row in select_texts(rows, ["`ID`", "`id`"]).collect()] == [("upper", "lower")]
    assert [tuple(row) for row in project(rows, rows.schema).collect()] == [("lower", "upper")]


def test_no_names_select_no_columns(spark: SparkSession) -> None:
    assert select_texts(spark.range(1), []).columns == []


def test_any_of_many_conditions_is_evaluated_without_nesting(spark: SparkSession) -> None:
    from pyspark.sql import functions as F

    rows = spark.createDataFrame([(2_999,), (3_000,), (None,)], "n int")
    found = rows.select(any_of(F.col("n") == i for i in range(3_000))).collect()
    assert [row[0] for row in found] == [True, False, None]
    assert [row[0] for row in rows.select(any_of([])).collect()] == [False] * 3
