"""Conversion of rows to the columns of an existing table, without Spark."""

from __future__ import annotations

import pytest
from pyspark.sql import types as T

from headrace.errors import DataError
from headrace_sinks.stored_types import check_stored_key, describe_changes, union_by_name


def test_required_column_that_events_lack_is_rejected() -> None:
    inner = T.StructType().add("zip", T.IntegerType(), nullable=False)
    stored = T.StructType().add("id", T.IntegerType(), nullable=False).add("address", inner)
    complete = T.StructType().add("id", T.IntegerType()).add("address", T.StructType().add("zip", T.IntegerType()))
    assert union_by_name(stored, complete, lambda *_: True).names == ["id", "address"]
    assert union_by_name(stored, T.StructType().add("id", T.IntegerType()), lambda *_: True).names == ["id", "address"]
    deletes = T.StructType().add("address", inner)
    assert union_by_name(stored, deletes, lambda *_: True, has_deletes=True).names == ["id", "address"]
    for incoming, path in (
        (deletes, "id"),
        (
            T.StructType().add("id", T.IntegerType()).add("address", T.StructType().add("city", T.StringType())),
            "address.zip",
        ),
    ):
        with pytest.raises(DataError) as raised:
            union_by_name(stored, incoming, lambda *_: True)
        assert str(raised.value) == (
            f"the table's column {path!r} is NOT NULL, and the events do not have it\n"
            f"  fix: run `ALTER TABLE … ALTER COLUMN {path} DROP NOT NULL`, or add the column to the events"
        )


def test_key_column_that_the_table_lacks_is_rejected() -> None:
    stored = T.StructType().add("ID", T.IntegerType()).add("name", T.StringType())
    check_stored_key(stored, ("id",), "shop.people", "delta")
    with pytest.raises(DataError, match="sink delta: the table has no column 'line', which is part of the key"):
        check_stored_key(stored, ("id", "line"), "shop.people", "delta")


def test_changes_of_a_schema_are_described() -> None:
    int_, long, text = T.IntegerType(), T.LongType(), T.StringType()
    city = T.StructType().add("city", text)
    stored = T.StructType().add("id", int_).add("price", T.DecimalType(10, 2)).add("home", city)
    stored = stored.add("tags", T.ArrayType(int_))
    target = T.StructType().add("id", long).add("price", T.DecimalType(12, 2))
    target = target.add("home", T.StructType([*city, T.StructField("zip", text)])).add("tags", T.ArrayType(long))
    target = target.add("note", text)
    assert describe_changes(stored, target) == [
        "id is now bigint",
        "price is now decimal(12,2)",
        "new column home.zip (string)",
        "tags.element is now bigint",
        "new column note (string)",
    ]
    assert describe_changes(target, target) == []
