"""Projection of rows to wider types: fields that a nested type lacks are null."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from headrace.schema.projection import project

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.one_spark]

#: Case → type and value of the rows, type and value after the projection.
CASES = {
    "struct": ("struct<k: string>", "named_struct('k', 'a')", "struct<k: string, z: int>", {"k": "a", "z": None}),
    "other case": (
        "array<struct<K: string, l: struct<M: int>>>",
        "array(named_struct('K', 'a', 'l', named_struct('M', 1)))",
        "array<struct<k: string, L: struct<m: bigint>, z: int>>",
        [{"k": "a", "L": {"m": 1}, "z": None}],
    ),
    "map of structs": (
        "map<string, struct<k: string>>",
        "map('m', named_struct('k', 'a'))",
        "map<string, struct<k: string, z: int>>",
        {"m": {"k": "a", "z": None}},
    ),
    "array of maps of structs": (
        "array<map<string, struct<k: int>>>",
        "array(map('m', named_struct('k', 1)), null)",
        "array<map<string, struct<k: bigint, z: int>>>",
        [{"m": {"k": 1, "z": None}}, None],
    ),
    "map of arrays of structs": (
        "map<string, array<struct<k: string>>>",
        "map('m', array(named_struct('k', 'a')), 'n', null)",
        "map<string, array<struct<z: int, k: string>>>",
        {"m": [{"z": None, "k": "a"}], "n": None},
    ),
}


def test_nested_types_are_widened(spark: SparkSession) -> None:
    columns = [f"cast({value} AS {have}) AS `{name}`" for name, (have, value, _, _) in CASES.items()]
    want = spark.createDataFrame([], ", ".join(f"`{name}` {kind}" for name, (_, _, kind, _) in CASES.items())).schema
    (row,) = project(spark.range(1).selectExpr(*columns), want).collect()
    assert row.asDict(recursive=True) == {name: value for name, (*_, value) in CASES.items()}


def test_missing_column_is_null(spark: SparkSession) -> None:
    want = spark.createDataFrame([], "id bigint, tags map<string, struct<k: string>>").schema
    assert project(spark.range(1), want).collect() == [(0, None)]
