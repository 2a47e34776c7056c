"""Unavailable values, which are filled from stored rows, and late values for stored rows, tested on a few rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from headrace.upsert.fill_unavailable import fill_from_stored

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.steps, pytest.mark.one_spark]

ROWS = "id int, text string, _headrace_position string, _headrace_deleted boolean, _headrace_origin map<string,string>"
STORED = "id int, text string, _headrace_position string, _headrace_origin map<string,string>"
#: Origin of a row whose ``text`` is unavailable and for which the batch has no older change.
LEFT_OUT = {"text": ""}


def fill(rows: DataFrame, stored: DataFrame | None) -> list[tuple[Any, ...]]:
    with fill_from_stored(rows, stored, ["id"], ["text"]) as filled:
        columns = ("id", "text", "_headrace_position", "_headrace_origin")
        return sorted(tuple(row) for row in filled.select(*columns).collect())


def test_newer_row_gets_the_stored_value_with_its_origin(spark: SparkSession) -> None:
    rows = spark.createDataFrame([(1, None, "0C", False, LEFT_OUT), (2, "new", "0C", False, None)], ROWS)
    stored = spark.createDataFrame([(1, "large", "0A", None), (2, "old", "0A", None)], STORED)
    assert fill(rows, stored) == [(1, "large", "0C", {"text": "0A"}), (2, "new", "0C", None)]


def test_stored_row_gets_late_value_and_stays_older_than_newer_changes(spark: SparkSession) -> None:
    rows = spark.createDataFrame([(1, "told", "0B", False, None)], ROWS)
    stored = spark.createDataFrame([(1, "first", "0C", {"text": "0A"})], STORED)
    assert fill(rows, stored) == [(1, "told", "0C!", {"text": "0B"})]


def test_late_row_without_a_newer_value_changes_nothing(spark: SparkSession) -> None:
    rows = spark.createDataFrame([(1, "older", "0A", False, None)], ROWS)
    stored = spark.createDataFrame([(1, "first", "0C", {"text": "0B"})], STORED)
    assert fill(rows, stored) == []


def test_without_a_table_rows_are_unchanged_and_partial_updates_wait(spark: SparkSession) -> None:
    rows = spark.createDataFrame(
        [(1, None, "0B", False, LEFT_OUT, False), (2, "v", "0B", False, None, True)],
        f"{ROWS}, _headrace_partial boolean",
    )
    assert fill(rows, None) == [(1, None, "0B", LEFT_OUT)]


def test_value_of_a_wider_type_is_kept(spark: SparkSession) -> None:
    rows = spark.createDataFrame([(1, None, "0B", False, LEFT_OUT)], ROWS.replace("text string", "text int"))
    stored = spark.createDataFrame([(1, 2**40, "0A", None)], STORED.replace("text string", "text bigint"))
    assert fill(rows, stored) == [(1, 2**40, "0B", {"text": "0A"})]


def test_row_gets_the_value_of_another_writer_and_later_a_late_value(spark: SparkSession) -> None:
    rows = spark.createDataFrame([(1, None, "0C", False, LEFT_OUT), (2, None, "0C", False, LEFT_OUT)], ROWS)
    stored = spark.createDataFrame([(1, "large", "", None)], STORED)
    assert fill(rows, stored) == [(1, "large", "0C", LEFT_OUT), (2, None, "0C", LEFT_OUT)]
    taken = spark.createDataFrame([(1, "large", "0C", LEFT_OUT)], STORED)
    newer = spark.createDataFrame([(1, None, "0D", False, LEFT_OUT)], ROWS)
    assert fill(newer, taken) == [(1, "large", "0D", LEFT_OUT)]
    late = spark.createDataFrame([(1, "told", "0B", False, None)], ROWS)
    assert fill(late, taken) == [(1, "told", "0C!", {"text": "0B"})]
