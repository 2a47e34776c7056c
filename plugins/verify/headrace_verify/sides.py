"""The two sides of a comparison: a table of the database, and a table of the lake. Both return digests, and no values except keys."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from headrace_verify.compared_table import ComparedTable, Digests, write_source_digests, write_spark_digests
from headrace_verify.source_table import SourceDatabase

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: Texts of the columns of a key.
Key = tuple[str, ...]
#: Bucket → its number of rows, and the sum of their digests.
Buckets = Mapping[str, tuple[int, int]]
#: Keys of one statement.
_KEYS = 500


@dataclass(frozen=True)
class Row:
    """Digests of a row's columns. ``version`` changes with each update in the database; it is not compared.

    ``copies``: rows of the key, which should be one.
    """

    digests: tuple[int, ...]
    version: int = 0
    copies: int = 1


class Side(Protocol):
    """One side of a comparison."""

    def sum_buckets(self) -> Buckets:
        """Return the sums of all rows."""

    def list_rows(self, buckets: Sequence[str]) -> Iterator[tuple[Key, int]]:
        """Return key and digest of the rows in some buckets. A key of several rows is returned several times."""

    def find_rows(self, keys: Sequence[Key]) -> dict[Key, Row]:
        """Return the current rows of some keys."""


class SourceSide:
    """Table of the database. ``await_load`` is called before each statement that reads rows."""

    def __init__(
        self,
        database: SourceDatabase,
        table: ComparedTable,
        digits: int,
        limit: str | None,
        await_load: Callable[[], None] = lambda: None,
    ) -> None:
        """``digits``: those of a bucket; ``limit``: the buckets before this one are compared, None for all."""
        self._database, self._table, self._await_load = database, table, await_load
        self._sql: Digests = write_source_digests(database, table, digits)
        self._from = f"from {database.reference(table.source)}"
        self._sample = "" if limit is None else f"{self._sql.bucket} < '{limit}'"

    def sum_buckets(self) -> Buckets:
        where = f"where {self._sample} " if self._sample else ""
        sql = f"select {self._sql.bucket} as bucket, count(*), sum({self._sql.row}) {self._from} {where}group by 1"
        return {_text(bucket): (int(rows), int(digests)) for bucket, rows, digests in self._read(sql)}

    def list_rows(self, buckets: Sequence[str]) -> Iterator[tuple[Key, int]]:
        names = ", ".join(f"'{bucket}'" for bucket in buckets)
        sql = f"select {', '.join(self._sql.key)}, {self._sql.row} {self._from} where {self._sql.bucket} in ({names})"
        for *key, digest in self._read(sql):
            yield tuple(map(_text, key)), int(digest)

    def find_rows(self, keys: Sequence[Key]) -> dict[Key, Row]:
        found: dict[Key, Row] = {}
        parts = ", ".join((*self._sql.key, self._database.row_version, *self._sql.columns))
        width = len(self._table.key)
        for start in range(0, len(keys), _KEYS):
            some = keys[start : start + _KEYS]
            where = " or ".join(f"({self.match(key)})" for key in some)
            for row in self._read(f"select {parts} {self._from} where {where}"):
                digests = tuple(map(int, row[width + 1 :]))
                found[tuple(map(_text, row[:width]))] = Row(digests, int(row[width]))
        return {key: found[key] for key in keys if key in found}

    def _read(self, sql: str) -> list[tuple[Any, ...]]:
        self._await_load()
        return self._database.query(sql)

    def match(self, key: Key) -> str:
        """Return the condition for a key in SQL of the database. It may be true for other keys, by its collation."""
        conditions = []
        for column, text in zip(self._table.key, read_key(self._table, key), strict=True):
            literal = column.form.literal.replace("{text}", self._database.quote_text(text))
            conditions.append(f"{self._database.quote(column.name)} = {literal}")
        return " and ".join(conditions)


class LakeSide:
    """Table of the lake. ``read`` returns its newest version."""

    def __init__(self, read: Callable[[], DataFrame], table: ComparedTable, digits: int, limit: str | None) -> None:
        self._read, self._table = read, table
        self._sql: Digests = write_spark_digests(table, digits)
        self._sample = "true" if limit is None else f"{self._sql.bucket} < '{limit}'"

    def sum_buckets(self) -> Buckets:
        # Functions of Java count as nondeterministic, and an aggregate does not accept them as its argument.
        digest = f"cast({self._sql.row} as decimal(38, 0)) as digest"
        rows = self._read().where(self._sample).selectExpr(f"{self._sql.bucket} as bucket", digest)
        sums = rows.groupBy("bucket").agg({"*": "count", "digest": "sum"})
        return {row["bucket"]: (row["count(1)"], int(row["sum(digest)"])) for row in sums.collect()}

    def list_rows(self, buckets: Sequence[str]) -> Iterator[tuple[Key, int]]:
        names = ", ".join(f"'{bucket}'" for bucket in buckets)
        rows = self._read().where(f"{self._sql.bucket} in ({names})").selectExpr(*self._sql.key, self._sql.row)
        for *key, digest in rows.toLocalIterator():
            yield tuple(key), int(digest)

    def find_rows(self, keys: Sequence[Key]) -> dict[Key, Row]:
        from pyspark.sql import functions as F

        frame, width = self._read(), len(self._table.key)
        wanted = frame.sparkSession.createDataFrame([("|".join(key),) for key in keys], "headrace_verified_key string")
        joined = f"concat_ws('|', {', '.join(self._sql.key)})"
        rows = frame.join(F.broadcast(wanted), F.expr(joined) == F.col("headrace_verified_key"), "left_semi")
        found: dict[Key, Row] = {}
        for row in rows.selectExpr(*self._sql.key, *self._sql.columns).collect():
            key = tuple(row[:width])
            found[key] = Row(tuple(map(int, row[width:])), copies=found[key].copies + 1 if key in found else 1)
        return found


def read_key(table: ComparedTable, key: Key) -> Key:
    """Return the texts of a key without their lengths."""
    pairs = zip(table.key, key, strict=True)
    return tuple(text.partition(":")[2] if column.form.is_free else text for column, text in pairs)


def _text(value: object) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
