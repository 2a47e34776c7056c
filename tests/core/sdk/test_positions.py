"""Positions as strings that sort like numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, Phase, given, settings, strategies as st

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.one_spark]

#: Bigints as Spark holds them; negative ones are the upper half of the unsigned numbers.
NUMBERS = (
    st.none()
    | st.integers(-(2**63), 2**63 - 1)
    | st.builds(lambda bits: 2**bits - 1, st.integers(0, 63))
    | st.integers(0, 300)
)
#: Few examples with many values each, because every example is a Spark job. Shrinking would take minutes.
few_examples = settings(max_examples=4, deadline=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck))


def collect_strings(spark: SparkSession, *columns: Column, of: str, rows: list[tuple[int | None, ...]]) -> list[str]:
    from pyspark.sql import functions as F

    frame = spark.createDataFrame(rows, of)
    return [row[0] for row in frame.select(F.concat(*columns)).collect()]


def rank(number: int | None) -> int:
    """Return the expected order: null first."""
    return -1 if number is None else number % 2**64


@few_examples
@given(st.lists(NUMBERS, min_size=150, max_size=300))
def test_string_sorts_as_unsigned_number_with_null_first(spark: SparkSession, numbers: list[int | None]) -> None:
    from pyspark.sql import functions as F

    from headrace.sdk.positions import sortable

    found = collect_strings(spark, sortable(F.col("n")), of="n bigint", rows=[(n,) for n in numbers])
    pairs = sorted(zip(map(rank, numbers), found, strict=True))
    assert [text for _, text in pairs] == sorted(found)
    assert len(set(found)) == len(set(numbers))


@few_examples
@given(st.lists(st.tuples(NUMBERS, NUMBERS, NUMBERS), min_size=150, max_size=300))
def test_joined_strings_sort_by_their_parts(spark: SparkSession, rows: list[tuple[int | None, ...]]) -> None:
    from pyspark.sql import functions as F

    from headrace.sdk.positions import position, sortable

    parts = [sortable(F.col(name)) for name in "abc"]
    found = collect_strings(spark, position(*parts[:2], place=parts[2]), of="a bigint, b bigint, c bigint", rows=rows)
    pairs = sorted(zip(([rank(n) for n in row] for row in rows), found, strict=True))
    assert [text for _, text in pairs] == sorted(found)
    assert len(set(found)) == len(set(rows))


def test_format_of_positions(spark: SparkSession) -> None:
    from pyspark.sql import functions as F

    from headrace.sdk.positions import sortable

    rows: list[tuple[int | None, ...]] = [(None,), (0,), (255,), (256,), (2**63 - 1,), (-1,)]
    assert collect_strings(spark, sortable(F.col("n")), of="n bigint", rows=rows) == [
        "0", "10", "2FF", "3100", "G7FFFFFFFFFFFFFFF", "GFFFFFFFFFFFFFFFF",
    ]  # fmt: skip


@few_examples
@given(
    st.lists(
        st.tuples(st.integers(0, 2**63 - 1) | st.integers(0, 70_000), st.integers(0, 2**40)), min_size=20, max_size=40
    )
)
def test_positions_of_an_epoch_are_higher_than_those_of_earlier_epochs(
    spark: SparkSession, numbers: list[tuple[int, int]]
) -> None:
    from pyspark.sql import functions as F

    from headrace.sdk.positions import in_epoch, position, read_epoch, sortable

    columns = [in_epoch(position(sortable(F.lit(number)), place=F.lit("10")), epoch) for epoch, number in numbers]
    (row,) = spark.range(1).select(*columns).collect()
    order = range(len(numbers))
    assert sorted(order, key=lambda i: (row[i], i)) == sorted(order, key=lambda i: (numbers[i], i))
    assert [read_epoch(text) for text in row] == [epoch for epoch, _ in numbers]
