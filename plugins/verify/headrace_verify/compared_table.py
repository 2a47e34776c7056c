"""Columns of a table that are compared, and the SQL of their digests on both sides."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.sdk import ConfigError
from headrace_verify.source_table import SourceDatabase, SourceTable, require_key
from headrace_verify.stored_texts import SparkSql
from headrace_verify.value_texts import FindForm, Sql, TextForm, write_text

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

#: Reasons for columns that are left out.
CHANGED = "a transform changes it"
_ONLY_LAKE = "only in the table"


@dataclass(frozen=True)
class ComparedColumn:
    """Column with the SQL of its value's text, null and length included, on both sides."""

    name: str
    form: TextForm
    source: str
    spark: str


@dataclass(frozen=True)
class ComparedTable:
    """Table with its compared columns, those of the key first, and the reasons for the others."""

    source: SourceTable
    key: tuple[ComparedColumn, ...]
    columns: tuple[ComparedColumn, ...]
    left_out: Mapping[str, str]


def choose_columns(
    source: Sql, find_form: FindForm, table: SourceTable, stored: StructType, changed: Collection[str]
) -> ComparedTable:
    """Return the columns that both sides have in one form. ConfigError if a column of the key is not among them.

    ``source``: the SQL of the database, or of Spark for another stored table.
    """
    require_key(table)
    lake = {field.name.lower(): field for field in stored}
    left_out: dict[str, str] = {}
    found: dict[str, ComparedColumn] = {}
    touched = {name.lower() for name in changed}
    for column in table.columns:
        field = lake.pop(column.name.lower(), None)
        if column.name.lower() in touched:
            left_out[column.name] = CHANGED
        elif field is None:
            left_out[column.name] = f"only in {source.noun}"
        elif form := find_form(column, field.dataType):
            found[column.name] = _make_column(source, column.name, field.name, form)
        else:
            left_out[column.name] = f"{column.kind} is not compared with {field.dataType.simpleString().upper()}"
    left_out |= {field.name: CHANGED if name in touched else _ONLY_LAKE for name, field in lake.items()}
    if missing := [name for name in table.key if name not in found]:
        what = f"the column {missing[0]} of the primary key cannot be compared: {left_out[missing[0]]}"
        raise ConfigError(what, fix="rows are matched by their primary key: store it unchanged")
    key = tuple(found[name] for name in table.key)
    others = tuple(column for name, column in found.items() if name not in table.key)
    return ComparedTable(table, key, (*key, *others), left_out)


def _make_column(source: Sql, name: str, stored: str, form: TextForm) -> ComparedColumn:
    spark = SparkSql()
    wanted = write_text(source, form.source, source.quote(name), is_free=form.is_free)
    return ComparedColumn(name, form, wanted, write_text(spark, form.spark, spark.quote(stored), is_free=form.is_free))


@dataclass(frozen=True)
class Digests:
    """SQL of a row's digests on one side. A digest is a number of 60 bits; a bucket is the start of the key's MD5."""

    bucket: str
    row: str
    key: tuple[str, ...]
    columns: tuple[str, ...]


def write_source_digests(database: SourceDatabase, table: ComparedTable, digits: int) -> Digests:
    """Return the digests in SQL of the database."""

    def digest(text: str) -> str:
        return database.number(database.hash(text))

    key, texts = [column.source for column in table.key], [column.source for column in table.columns]
    bucket = f"left({database.hash(database.join(key))}, {digits})"
    return Digests(bucket, digest(database.join(texts)), tuple(key), tuple(map(digest, texts)))


def write_spark_digests(table: ComparedTable, digits: int) -> Digests:
    """Return the digests in SQL of Spark."""

    def digest(text: str) -> str:
        return f"cast(conv(left(md5({text}), 15), 16, 10) as bigint)"

    key, texts = [column.spark for column in table.key], [column.spark for column in table.columns]
    return Digests(write_bucket(key, digits), digest(_join(texts)), tuple(key), tuple(map(digest, texts)))


def write_bucket(key: Sequence[str], digits: int) -> str:
    """Return the SQL of Spark for the bucket of a key, of which ``key`` are the texts."""
    return f"left(md5({_join(key)}), {digits})"


def _join(texts: Sequence[str]) -> str:
    return f"concat_ws('|', {', '.join(texts)})"
