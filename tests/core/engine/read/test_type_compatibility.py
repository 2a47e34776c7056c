"""Changes with types that do not fit the columns of a table, tested on a few rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from headrace.engine.read.type_compatibility import reject_incompatible
from headrace.sdk.changes import Changes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.steps, pytest.mark.one_spark]

SCHEMA = "id int, amount string, _headrace_error string"


def test_value_without_a_wider_common_type_is_rejected(spark: SparkSession) -> None:
    table = spark.createDataFrame([], "id int, AMOUNT timestamp").schema
    rows = spark.createDataFrame([(1, "twelve", None), (2, None, None), (3, "x", "op-missing")], SCHEMA)
    made = reject_incompatible(Changes(rows, envelope=False), table).frame
    assert sorted(tuple(row) for row in made.collect()) == [
        (1, None, "schema-incompatible"),
        (2, None, None),
        (3, None, "op-missing"),
    ]


def test_dead_letter_contains_the_incompatible_value(spark: SparkSession) -> None:
    table = spark.createDataFrame([], "id int, AMOUNT timestamp").schema
    changes = Changes(spark.createDataFrame([(1, "twelve", None)], SCHEMA), envelope=False)
    [row] = reject_incompatible(changes, table, keeps_values=True).frame.collect()
    assert tuple(row) == (1, "twelve", "schema-incompatible")


def test_value_that_can_be_widened_is_accepted(spark: SparkSession) -> None:
    table = spark.createDataFrame([], "id bigint, amount string").schema
    changes = Changes(spark.createDataFrame([(1, "a", None)], SCHEMA), envelope=False)
    assert reject_incompatible(changes, table) is changes


def test_envelopes_are_unchanged(spark: SparkSession) -> None:
    changes = Changes(spark.createDataFrame([(1, "a", None)], SCHEMA), envelope=True)
    assert reject_incompatible(changes, spark.createDataFrame([], "id date").schema) is changes
