"""Types of several topics that feed one table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from headrace.engine.read.topic_union import union_changes
from headrace.errors import DataError
from headrace.sdk.changes import ERROR, Changes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.one_spark]


def changes(spark: SparkSession, kind: str, value: str) -> Changes:
    """Return one change with the columns ``id`` and ``v``."""
    frame = spark.sql(f"SELECT 1 AS id, CAST({value} AS {kind}) AS v, CAST(null AS STRING) AS {ERROR}")
    return Changes(frame, envelope=False)


@pytest.mark.parametrize(
    ("first", "second", "wide"),
    [
        (("int", "1"), ("bigint", "9007199254740993"), ("bigint", [1, 9007199254740993])),
        (("float", "0.5"), ("int", "16777217"), ("double", [0.5, 16777217.0])),
        (("array<int>", "array(1)"), ("array<bigint>", "array(2)"), ("array<bigint>", [[1], [2]])),
    ],
    ids=lambda value: value[0],
)
def test_column_has_the_wider_type_of_two_topics(
    spark: SparkSession, first: tuple[str, str], second: tuple[str, str], wide: tuple[str, list[Any]]
) -> None:
    frame = union_changes([changes(spark, *first), changes(spark, *second)], "orders").frame
    assert (dict(frame.dtypes)["v"], [row["v"] for row in frame.collect()]) == wide


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (("int", "1"), ("string", "'x'")),
        (("bigint", "9007199254740993"), ("double", "0.5")),
        (("timestamp", "'2024-01-01 00:00:00'"), ("timestamp_ntz", "'2024-01-01 00:00:00'")),
        (("array<int>", "array(1)"), ("int", "1")),
    ],
    ids=lambda value: value[0],
)
def test_topics_without_a_common_type_are_an_error(
    spark: SparkSession, first: tuple[str, str], second: tuple[str, str]
) -> None:
    parts = [changes(spark, *first), changes(spark, *second)]
    with pytest.raises(
        DataError, match=f"the column 'v' is {first[0]} in some records and {second[0]} in others"
    ) as caught:
        union_changes(parts, "orders")
    assert caught.value.where == "table orders"
    rows = union_changes(parts, "orders", rejects_conflicts=True).frame.select("v", ERROR).collect()
    assert [(row["v"] is None, row[ERROR]) for row in rows] == [(False, None), (True, "schema-incompatible")]
