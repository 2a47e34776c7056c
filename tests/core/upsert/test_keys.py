"""Keys as strings: different keys have different strings, and equal keys have equal strings."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from headrace.upsert.keys import key_text, parse_cell_text

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.steps, pytest.mark.one_spark]


def test_strings_of_keys_are_unambiguous(spark: SparkSession) -> None:
    from pyspark.sql import functions as F

    rows = spark.sql(
        """SELECT * FROM VALUES
        (0, array("a, b"), named_struct("x", "a, b", "y", "c"), 0.0D, 0.0F),
        (1, array("a", "b"), named_struct("x", "a", "y", "b, c"), -0.0D, -0.0F),
        (2, array(null), named_struct("x", null, "y", "c"), double("NaN"), 0.1F) AS t (n, a, s, d, f)"""
    )
    key = ["a", "s", "d", "f"]
    texts = rows.select("*", key_text(rows, key).alias("texts"))
    parsed = [parse_cell_text(F.col("texts")[i], rows.schema[name].dataType) for i, name in enumerate(key)]
    is_same = [F.col(name) == value for name, value in zip(key, parsed, strict=True)]
    found = texts.select("texts", F.array(*is_same).alias("same")).orderBy("n").collect()
    assert [row["texts"] for row in found] == [
        ['["a, b"]', '{"x":"a, b","y":"c"}', "0.0", "0.0"],
        ['["a","b"]', '{"x":"a","y":"b, c"}', "0.0", "0.0"],
        ["[null]", '{"y":"c"}', "NaN", "0.1"],
    ]
    assert all(row["same"] == [True] * 4 for row in found)
