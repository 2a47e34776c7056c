"""Changes of columns by a transform, which apply to every row image and to the key."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from headrace.errors import DataError
from headrace.sdk.changes import DELETED, KEY, Changes
from headrace.spark.columns import quote_name

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.one_spark]

ENVELOPE = f"before struct<id int, name string>, after struct<id int, name string, `a.b` string>, op string, {KEY} struct<id int>, {DELETED} boolean"


@pytest.fixture(scope="module")
def envelopes(spark: SparkSession) -> Changes:
    rows = [(None, (1, "x", "dot"), "c", (1,), False), ((1, "x"), None, "d", (1,), True)]
    return Changes(spark.createDataFrame(rows, ENVELOPE), envelope=True)


@pytest.fixture(scope="module")
def flat(spark: SparkSession) -> Changes:
    return Changes(
        spark.createDataFrame([(1, "x", "y", (1,))], f"id int, name string, `a.b` string, {KEY} struct<id int>"),
        envelope=False,
    )


def test_columns_of_rows_and_keys_are_listed(envelopes: Changes, flat: Changes) -> None:
    assert envelopes.own_columns == [KEY, DELETED]
    assert envelopes.event_columns == ["before", "after", "op"]
    assert envelopes.key_columns == flat.key_columns == ["id"]
    assert envelopes.row_columns == flat.row_columns == ["id", "name", "a.b"]


def test_changes_without_a_key_have_no_key_columns(spark: SparkSession) -> None:
    assert Changes(spark.createDataFrame([(1,)], "id int"), envelope=False).key_columns == []


def test_values_and_names_change_in_row_images_and_key(envelopes: Changes) -> None:
    done = envelopes.map_rows(values={"id": lambda c: c + 100, "a.b": lambda c: c}, names={"id": "number", "a.b": "ab"})
    assert done.key_columns == ["number"]
    assert done.row_columns == ["number", "name", "ab"]
    assert [row.asDict(recursive=True) for row in done.frame.collect()] == [
        {
            "before": None,
            "after": {"number": 101, "name": "x", "ab": "dot"},
            "op": "c",
            KEY: {"number": 101},
            DELETED: False,
        },
        {"before": {"number": 101, "name": "x"}, "after": None, "op": "d", KEY: {"number": 101}, DELETED: True},
    ]


def test_values_and_names_change_in_flat_rows(flat: Changes) -> None:
    done = flat.map_rows(values={"id": lambda c: c + 100}, names={"id": "number", "a.b": "b.a"})
    assert [row.asDict(recursive=True) for row in done.frame.collect()] == [
        {"number": 101, "name": "x", "b.a": "y", KEY: {"number": 101}}
    ]


def test_envelope_columns_are_not_columns_of_the_row(envelopes: Changes) -> None:
    done = envelopes.map_rows(names={"op": "operation", DELETED: "gone"})
    assert done.frame.columns == envelopes.frame.columns


def test_two_columns_can_swap_names(flat: Changes) -> None:
    [row] = flat.map_rows(names={"id": "name", "name": "id"}).frame.collect()
    assert row.asDict(recursive=True) == {"name": 1, "id": "x", "a.b": "y", KEY: {"name": 1}}


@pytest.mark.parametrize("taken", ["name", "NAME", "a.b"])
def test_existing_name_is_rejected(envelopes: Changes, flat: Changes, taken: str) -> None:
    for changes in (envelopes, flat):
        with pytest.raises(DataError) as raised:
            changes.map_rows(names={"id": taken})
        assert str(raised.value) == f"two columns would be named {taken!r}\n  fix: rename to an unused name"


def test_missing_column_changes_nothing(flat: Changes) -> None:
    assert (
        flat.map_rows(values={"nobody": lambda c: c + 1}, names={"nobody": "name"}).frame.columns == flat.frame.columns
    )


def test_names_are_quoted_for_spark(spark: SparkSession) -> None:
    name = "a`b.c"
    assert spark.range(1).selectExpr(f"1 AS {quote_name(name)}").select(quote_name(name)).columns == [name]
