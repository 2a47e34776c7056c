"""Rows of a view, computed from the stored tables: all of them, or those that queued changes can have affected."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import reduce
from typing import TYPE_CHECKING

from headrace.checkpoint.view_queue import QueueEntry, ViewQueue
from headrace.engine.plan.view_plan import View
from headrace.engine.write.view_capture import STORED
from headrace.errors import ConfigError, DataError
from headrace.schema.projection import project
from headrace.sdk.changes import PREFIX
from headrace.spark.columns import any_of, fold_name, quote_name
from headrace.spark.decimal_texts import limit_query
from headrace.spark.error_text import first_line
from headrace.spark.sessions import materialize

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: Table → entries of the queue.
Entries = Mapping[str, Sequence[QueueEntry]]
#: Most rows that each executor gets whole: Spark does not know how few rows a join with changes has.
MOST_BROADCAST = 50_000
_KEY, _COUNT = PREFIX + "view_key_", PREFIX + "count"


class ViewTables:
    """Stored tables of a view, as relations of a session for SQL."""

    def __init__(
        self, session: SparkSession, view: View, stored: Mapping[str, DataFrame], queue: ViewQueue | None
    ) -> None:
        """Make the relations. ``stored``: table → its rows, read in the session; ``queue``: required for changes."""
        self._session, self._view, self._queue = session, view, queue
        self._stored = {table: _without_own_columns(rows) for table, rows in stored.items()}
        self._relations: list[str] = []
        self._names = {table: self._register(rows) for table, rows in self._stored.items()}

    def close(self) -> None:
        """Drop the relations."""
        for name in self._relations:
            self._session.catalog.dropTempView(name)

    @property
    def types(self) -> dict[str, dict[str, str]]:
        """Table → column → type in Spark SQL."""
        return {table: dict(rows.dtypes) for table, rows in self._stored.items()}

    def all_rows(self) -> DataFrame:
        """Return all rows of the view."""
        return self._run(self._view.query.rows_sql(self._names))

    def check_touched_keys(self) -> None:
        """Raise ConfigError if the keys that changes touch cannot be computed from the columns of the tables."""
        for table, name in ({} if self._view.is_full else self._names).items():
            self._run(self._view.query.touched_keys_sql(table, self._names, name))

    def touched_rows(self, touched: DataFrame) -> DataFrame:
        """Return the rows of the view with the given keys."""
        types = {fold_name(field.name): field.dataType for field in self.all_rows().schema}
        is_typed = all(types.get(fold_name(field.name)) == field.dataType for field in touched.schema)
        columns = {table: set(map(fold_name, rows.columns)) for table, rows in self._stored.items()}
        name = self._register(_broadcast_if_few(touched, touched))
        return self._run(self._view.query.touched_rows_sql(self._names, name, columns if is_typed else None))

    def touched_keys(self, pending: Entries, entries: Entries) -> DataFrame:
        """Return keys of the view, with every key whose row the pending changes can have affected.

        A change is compared with the rows that the other tables have or had. ``entries``: all entries that the view has not applied.
        """
        padded = {table: self._pad(table, entries.get(table, ())) for table in self._names}
        query, found = self._view.query, []
        for table, changes in pending.items():
            if changes:
                name = self._register(self._changed_rows(table, changes))
                found.append(self._run(query.touched_keys_sql(table, padded, name)).toDF(*self._view.key))
        return reduce(lambda a, b: a.union(b), found).distinct()

    def _pad(self, table: str, entries: Sequence[QueueEntry]) -> str:
        """Return the relation with the stored rows of a table and its queued old rows."""
        if not entries:
            return self._names[table]
        stored = self._stored[table]
        old = [self._read(table, group).where(STORED).drop(STORED) for group in _group(entries)]
        return self._register(reduce(lambda a, b: a.unionByName(b), [stored, *old]))

    def _changed_rows(self, table: str, entries: Sequence[QueueEntry]) -> DataFrame:
        """Return the rows of a table before and after its queued changes."""
        from pyspark.sql import functions as F

        stored, found, read = self._stored[table], [], []
        for group in _group(entries):
            rows, key = self._read(table, group), group[0].key
            read.append(rows.select(F.lit(1)))
            found.append(rows.where(STORED).drop(STORED))
            if key:
                written = rows.select(*[F.col(quote_name(k)).alias(f"{_KEY}{n}") for n, k in enumerate(key)])
                is_same = [stored[quote_name(k)] == written[f"{_KEY}{n}"] for n, k in enumerate(key)]
                found.append(stored.join(written, is_same, "left_semi"))
        changed = reduce(lambda a, b: a.unionByName(b), found)
        return _broadcast_if_few(changed, reduce(lambda a, b: a.union(b), read))

    def _read(self, table: str, entries: Sequence[QueueEntry]) -> DataFrame:
        """Return the rows of entries in the types that the table has now, with STORED."""
        from pyspark.sql.types import BooleanType, StructType

        assert self._queue is not None
        want = StructType([*self._stored[table].schema.fields]).add(STORED, BooleanType())
        return project(self._queue.read(self._session, entries), want)

    def _register(self, rows: DataFrame) -> str:
        name = f"headrace_{uuid.uuid4().hex}"
        rows.createOrReplaceTempView(name)
        self._relations.append(name)
        return name

    def _run(self, sql: str) -> DataFrame:
        from pyspark.errors import AnalysisException

        try:
            return limit_query(self._session, sql)
        except AnalysisException as error:
            text = first_line(error)
            for table, name in self._names.items():
                text = text.replace(f"`{name}`", table).replace(name, table)
            raise ConfigError(
                f"Spark rejects its SQL: {text}",
                where=f"view {self._view.name}",
                fix="correct `sql:`, or `touched_by:`; the tables have the columns that `headrace show` lists",
            ) from error


@contextmanager
def open_tables(
    session: SparkSession, view: View, stored: Mapping[str, DataFrame], queue: ViewQueue | None = None
) -> Iterator[ViewTables]:
    """Yield the tables of a view for the time of the block."""
    tables = ViewTables(session, view, stored, queue)
    try:
        yield tables
    finally:
        tables.close()


def describe_types(view: View, stored: Mapping[str, DataFrame]) -> list[str]:
    """Return the names and types of the columns that a view may read."""
    needed = {table: view.query.needed_columns(table) for table in stored}
    return sorted(
        f"{table}.{field.name} {field.dataType.simpleString()}"
        for table, rows in stored.items()
        for field in _without_own_columns(rows).schema
        if (columns := needed[table]) is None or fold_name(field.name) in columns
    )


def find_key(view: View, columns: Sequence[str]) -> tuple[str, ...]:
    """Return the key columns as the result of the view spells them. ConfigError if the result lacks one, or repeats a name."""
    spellings: dict[str, str] = {}
    for column in columns:
        if fold_name(column) in spellings:
            raise ConfigError(
                f"two columns of its result have the name {column!r}",
                where=f"view {view.name}",
                fix="name each column: `SELECT a.id AS a_id, …`",
            )
        spellings[fold_name(column)] = column
    if missing := [name for name in view.key if fold_name(name) not in spellings]:
        raise ConfigError(
            f"its result has no column {missing[0]!r}, which `key:` names",
            where=f"view {view.name}",
            fix=f"select it; the columns are {', '.join(columns)}",
        )
    return tuple(spellings[fold_name(name)] for name in view.key)


def check_keys(view: View, rows: DataFrame, key: Sequence[str]) -> int:
    """Return the number of rows. DataError for a null in the key, and for two rows with one key."""
    from pyspark.sql import functions as F

    columns = [F.col(quote_name(name)) for name in key]
    groups = rows.groupBy(*columns).agg(F.count("*").alias(_COUNT))
    texts = F.struct(*[column.cast("string").alias(name) for name, column in zip(key, columns, strict=True)])
    found = groups.agg(
        F.sum(_COUNT).alias("rows"),
        F.max(_COUNT).alias("most"),
        F.max_by(texts, F.col(_COUNT)).alias("key"),
        F.bool_or(any_of(column.isNull() for column in columns)).alias("has_null"),
    ).first()
    assert found is not None
    if found["has_null"]:
        raise DataError(
            f"a row of its result has a null in the key ({', '.join(key)})",
            where=f"view {view.name}",
            fix="filter such rows with WHERE … IS NOT NULL, or replace the null with COALESCE",
        )
    if (found["most"] or 0) > 1:
        text = ", ".join(f"{name}: {found['key'][name]}" for name in key)
        raise DataError(
            f"its result has {found['most']} rows with the key ({text})",
            where=f"view {view.name}",
            fix="group by the key, or add columns to `key:` that distinguish the rows",
        )
    return int(found["rows"] or 0)


@contextmanager
def find_deletes(candidates: Iterable[DataFrame], rows: DataFrame, key: Sequence[str]) -> Iterator[DataFrame]:
    """Yield the keys among the candidates, each with the key columns in order, that no row has."""
    from pyspark.sql import functions as F

    types = [rows.schema[name].dataType for name in key]
    names = [f"{_KEY}{number}" for number in range(len(key))]
    keys = [
        frame.select(
            *[F.col(quote_name(c)).cast(t).alias(n) for c, t, n in zip(frame.columns, types, names, strict=True)]
        )
        for frame in candidates
    ]
    is_null = any_of(F.col(name).isNull() for name in names)
    found = reduce(lambda a, b: a.union(b), keys).where(~is_null).distinct()
    is_same = [F.col(name) == rows[quote_name(column)] for name, column in zip(names, key, strict=True)]
    with materialize(found.join(rows, is_same, "left_anti").toDF(*key)) as deletes:
        yield deletes


def _broadcast_if_few(rows: DataFrame, bound: DataFrame) -> DataFrame:
    """Return rows with a hint for joins if they are few; ``bound``: at least as many rows, which are quick to count."""
    from pyspark.sql import functions as F

    return F.broadcast(rows) if bound.count() <= MOST_BROADCAST else rows


def _without_own_columns(rows: DataFrame) -> DataFrame:
    return rows.drop(*[name for name in rows.columns if name.startswith(PREFIX)])


def _group(entries: Sequence[QueueEntry]) -> list[list[QueueEntry]]:
    """Return groups of entries with the same key and types."""
    groups: dict[tuple[tuple[str, ...], str | None], list[QueueEntry]] = {}
    for entry in entries:
        groups.setdefault((entry.key, entry.types), []).append(entry)
    return list(groups.values())
