"""Schemas of objects, without Spark."""

from __future__ import annotations

from pyspark.sql import types as T

from headrace_sinks.s3 import object_reader
from headrace_sinks.s3.object_reader import unite_schemas


def test_columns_that_differ_by_case_are_one_column() -> None:
    number, text = T.IntegerType(), T.StringType()
    lower, upper = (
        T.StructType().add("id", number).add("name", text),
        T.StructType().add("id", number).add("Name", text),
    )
    union = unite_schemas([lower, upper])
    assert union.names == ["id", "name"]
    assert object_reader._is_part(lower, union)
    assert object_reader._is_part(upper, union)
    assert not object_reader._is_part(T.StructType().add("ID", text), union)
