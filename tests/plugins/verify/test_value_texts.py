"""Columns that are compared, and the SQL of their values, without a server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from headrace_verify.array_texts import find_postgresql_form
from headrace_verify.compared_table import ComparedTable, choose_columns, write_source_digests, write_spark_digests
from headrace_verify.mysql_database import MySqlDatabase
from headrace_verify.postgresql_database import PostgreSqlDatabase, _scale
from headrace_verify.sides import read_key
from headrace_verify.source_table import SourceColumn, SourceDatabase, SourceTable
from headrace_verify.table_verification import name_topic
from headrace_verify.value_texts import find_mysql_form
from pyspark.sql.types import ArrayType, DecimalType, IntegerType, StringType, StructField, StructType

from headrace.sdk import ConfigError

COLUMNS = (
    SourceColumn("id", "int4"),
    SourceColumn("Note", "text"),
    SourceColumn("phone", "text"),
    SourceColumn("tags", "_point"),
    SourceColumn("new", "int4"),
)
STORED = StructType(
    [
        StructField("id", IntegerType()),
        StructField("note", StringType()),
        StructField("phone", StringType()),
        StructField("tags", ArrayType(StringType())),
        StructField("total", IntegerType()),
        StructField("old", IntegerType()),
    ]
)


def answer(sql: str) -> list[tuple[Any, ...]]:
    return [("UTF8",)] if sql == "show server_encoding" else []


def choose(key: tuple[str, ...] = ("id",), changed: tuple[str, ...] = ("phone", "total")) -> ComparedTable:
    table = SourceTable("shop", "orders", COLUMNS, key)
    return choose_columns(PostgreSqlDatabase(answer, {}), find_postgresql_form, table, STORED, changed)


def test_columns_that_are_left_out_have_a_reason() -> None:
    table = choose()
    assert [column.name for column in table.columns] == ["id", "Note"]
    assert table.left_out == {
        "phone": "a transform changes it",
        "tags": "_point is not compared with ARRAY<STRING>",
        "new": "only in the database",
        "total": "a transform changes it",
        "old": "only in the table",
    }


@pytest.mark.parametrize(
    ("key", "changed", "message"),
    [
        ((), (), "shop.orders has no primary key"),
        (("id",), ("ID",), "the column id of the primary key cannot be compared: a transform changes it"),
        (("new",), (), "the column new of the primary key cannot be compared: only in the database"),
    ],
)
def test_rows_need_a_key(key: tuple[str, ...], changed: tuple[str, ...], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        choose(key, changed)


def test_texts_of_a_row_are_unambiguous() -> None:
    """Texts have their length, so that a separator within them does not move a value to the next column."""
    table = choose()
    sql = write_source_digests(PostgreSqlDatabase(answer, {}), table, 2)
    note = """coalesce(octet_length("Note"::text) || ':' || "Note"::text, 'N')"""
    assert sql.row == f"""('x' || left(md5(coalesce("id"::text, 'N') || '|' || {note}), 15))::bit(60)::bigint"""
    assert sql.bucket == """left(md5(coalesce("id"::text, 'N')), 2)"""
    spark = write_spark_digests(table, 2)
    texts = "coalesce(cast(`id` as string), 'N'), coalesce(concat(octet_length(`note`), ':', `note`), 'N')"
    assert spark.row == f"cast(conv(left(md5(concat_ws('|', {texts})), 15), 16, 10) as bigint)"


def test_key_is_shown_without_lengths() -> None:
    assert read_key(choose(("id", "Note")), ("7", "3:a:b")) == ("7", "a:b")


@pytest.mark.parametrize(
    ("scale", "stored", "source"),
    [
        (2, DecimalType(12, 2), "{c}::text"),
        # A value that the table rounds has another text.
        (4, DecimalType(12, 2), "{c}::text"),
        (2, DecimalType(12, 4), "({c}::numeric)::numeric(1000, 4)::text"),
    ],
)
def test_decimals_have_the_larger_scale(scale: int, stored: DecimalType, source: str) -> None:
    form = find_postgresql_form(SourceColumn("fee", "numeric", scale), stored)
    assert form is not None
    assert form.source == source
    assert ("decimal(38, 4)" in form.spark) == (stored.scale < scale)


def test_modifier_of_a_numeric_has_its_scale() -> None:
    assert [_scale(modifier) for modifier in (None, -1, ((12 << 16) | 2) + 4, ((5 << 16) | (-2 & 0x7FF)) + 4)] == [
        None,
        None,
        2,
        -2,
    ]


def test_arrays_have_the_texts_of_their_items() -> None:
    """Items have their length, so that no item looks like several."""
    form = find_postgresql_form(SourceColumn("tags", "_text"), ArrayType(StringType()))
    assert form is not None
    text = "coalesce(octet_length(u.v::text) || ':' || u.v::text, 'N')"
    assert f"string_agg({text}, ',' order by u.n)" in form.source
    assert "transform({c}, e -> coalesce(concat(octet_length(e), ':', e), 'N'))" in form.spark
    assert find_postgresql_form(SourceColumn("tags", "_text"), ArrayType(IntegerType())) is None


def test_names_and_literals_are_quoted() -> None:
    databases: list[SourceDatabase] = [PostgreSqlDatabase(answer, {}), MySqlDatabase(answer, {})]
    assert [database.quote('a"`b') for database in databases] == ['"a""`b"', '`a"``b`']
    assert [database.quote_text("a\\'") for database in databases] == ["E'a\\\\'''", "convert(0x615c27 using utf8mb4)"]


def test_unsigned_numbers_have_the_form_of_the_connector() -> None:
    column = SourceColumn("n", "bigint unsigned")
    form = find_mysql_form(column, DecimalType(20, 0))
    assert form is not None
    assert form.source == "cast({c} as char)"


def test_topic_has_the_name_of_debezium() -> None:
    assert name_topic({"topic.prefix": "shop"}, "public", "order lines") == "shop.public.order_lines"


@pytest.mark.parametrize(
    ("offset", "is_delivered"),
    [
        ({"file": "binlog.000002", "pos": 4}, True),
        ({"file": "binlog.000001", "pos": 1327}, True),
        ({"file": "binlog.000001", "pos": 1101}, False),
        ({}, False),
    ],
)
def test_offset_of_the_connector_is_compared_with_the_marker(offset: Mapping[str, Any], *, is_delivered: bool) -> None:
    database = MySqlDatabase(answer, {}, lambda: [{"partition": {}, "offset": dict(offset)}, {"offset": None}])
    assert database.has_delivered((1, 1327)) is is_delivered


def test_marker_needs_a_signal_table() -> None:
    def run(sql: str) -> list[tuple[Any, ...]]:
        return [("binlog.000001", 1327)] if sql == "show master status" else []

    with pytest.raises(ConfigError, match="no signal table"):
        MySqlDatabase(run, {}).mark()
    assert MySqlDatabase(run, {"signal.data.collection": "shop.signals"}).mark() == (1, 1327)


def test_database_in_another_encoding_is_rejected() -> None:
    with pytest.raises(ConfigError, match="encoding LATIN1"):
        PostgreSqlDatabase(lambda _: [("LATIN1",)], {})
