"""A world of three tables in DuckDB, in which views are kept by their touched keys."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import duckdb
import sqlglot
from tests.support.view_shapes import SHAPES, SHOP

from headrace.views.view_query import ViewQuery

Row = tuple[int | None, ...]
#: Changes of one batch: table → primary key → new row, or None for a delete.
Batch = Mapping[str, Mapping[int, Row | None]]


def name_relations(suffix: str) -> dict[str, str]:
    return {table: table.split(".")[1] + suffix for table in SHOP}


@dataclass(frozen=True)
class Statements:
    """SQL of a view for DuckDB: its rows, the rows of touched keys, and for each table the keys that it touches."""

    key: tuple[int, ...]
    rows: str
    touched_rows: str
    touched_keys: Mapping[str, str]
    needed: Mapping[str, frozenset[str] | None]


@cache
def build_statements(shape: str) -> Statements:
    sql, key = SHAPES[shape]
    query = ViewQuery.parse(sql, key)
    stored, wide = name_relations("_now"), name_relations("_wide")
    touched = {table: query.touched_keys_sql(table, wide, name_relations("_queue")[table]) for table in query.tables}
    rows = _transpile(query.rows_sql(stored))
    columns = [column[0].lower() for column in _connect().execute(rows).description or ()]
    return Statements(
        tuple(columns.index(name) for name in key),
        rows,
        _transpile(query.touched_rows_sql(stored, "touched", SHOP)),
        {table: _transpile(text) for table, text in touched.items()},
        {table: query.needed_columns(table) for table in query.tables},
    )


def _transpile(sql: str) -> str:
    return sqlglot.transpile(sql, read="spark", write="duckdb")[0]


@cache
def _connect() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(config={"threads": 1})
    for table, columns in SHOP.items():
        names = [name_relations(suffix)[table] for suffix in ("_now", "_queue", "_wide")]
        fields = ", ".join(f"{column} INTEGER" for column in columns)
        for name in names[:2]:
            connection.execute(f"CREATE TABLE {name} ({fields})")
        connection.execute("CREATE VIEW {2} AS SELECT * FROM {0} UNION ALL SELECT * FROM {1}".format(*names))
    return connection


@dataclass
class ViewWorld:
    """Tables, and a view that is refreshed from the changes since its last refresh.

    ``forgets_old_rows``: the queue lacks the rows before a change. The view then becomes wrong.
    """

    shape: str
    forgets_old_rows: bool = False
    tables: dict[str, dict[int, Row]] = field(default_factory=lambda: {table: {} for table in SHOP})
    queue: dict[str, set[Row]] = field(default_factory=dict)
    view: Counter[Row] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self._statements = build_statements(self.shape)
        self._connection = _connect()
        for table in self._statements.touched_keys:
            self._load(table, "_now", [])
        self.view = self.compute_whole()

    def apply(self, batch: Batch) -> None:
        """Change the tables, and queue the old and new rows of the changed keys."""
        for table, changes in batch.items():
            rows, queue = self.tables[table], self.queue.setdefault(table, set())
            if not self.forgets_old_rows:
                queue.update(rows[key] for key in changes if key in rows)
            for key, row in changes.items():
                if row is None:
                    rows.pop(key, None)
                else:
                    rows[key] = row
            queue.update(rows[key] for key in changes if key in rows)

    def refresh(self) -> None:
        """Recompute the keys that the queue touches."""
        for table in self._statements.touched_keys:
            if table in self.queue:
                self._load(table, "_now", self.tables[table].values())
            self._load(table, "_queue", self._drop_columns(table, self.queue.get(table, ())))
        touched: set[Row] = set()
        for table in self.queue:
            if table in self._statements.touched_keys:
                touched.update(self._run(self._statements.touched_keys[table]))
        self.queue.clear()
        kept = {row: n for row, n in self.view.items() if self._key(row) not in touched}
        self.view = Counter(kept) + Counter(self._compute_touched(touched))

    def compute_whole(self) -> Counter[Row]:
        return Counter(self._run(self._statements.rows))

    def _compute_touched(self, touched: set[Row]) -> list[Row]:
        names = ", ".join(f"{name} INTEGER" for name in SHAPES[self.shape].key)
        self._connection.execute(f"CREATE OR REPLACE TABLE touched ({names})")
        self._insert("touched", touched)
        return self._run(self._statements.touched_rows)

    def _key(self, row: Row) -> Row:
        return tuple(row[position] for position in self._statements.key)

    def _drop_columns(self, table: str, rows: Iterable[Row]) -> list[Row]:
        """Replace the columns that no view needs by a value that no row has."""
        needed = self._statements.needed.get(table, frozenset())
        return [
            tuple(v if needed is None or c in needed else -9 for c, v in zip(SHOP[table], row, strict=True))
            for row in rows
        ]

    def _load(self, table: str, suffix: str, rows: Iterable[Row]) -> None:
        name = name_relations(suffix)[table]
        self._connection.execute(f"DELETE FROM {name}")
        self._insert(name, rows)

    def _insert(self, name: str, rows: Iterable[Row]) -> None:
        values = ", ".join("(" + ", ".join("NULL" if v is None else str(v) for v in row) + ")" for row in rows)
        if values:
            self._connection.execute(f"INSERT INTO {name} VALUES {values}")

    def _run(self, sql: str) -> list[Any]:
        rows: Sequence[Any] = self._connection.execute(sql).fetchall()
        return list(rows)
