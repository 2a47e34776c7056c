"""Tables of the stand-in and their transactions."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from headrace_stack.sqlserver.changes import MOST_INSTANCES, CaptureInstance, CdcCommit, Lsn, TransactionLog
from headrace_stack.sqlserver.declarations import SqlColumn, column_of
from headrace_stack.sqlserver.sql_types import Refused, Value
from headrace_stack.sqlserver.text_types import RowVersion

SCHEMA = "dbo"


@dataclass
class CapturedTable:
    """Table of the schema dbo with unordered rows."""

    name: str
    columns: list[SqlColumn]
    key: tuple[str, ...]
    rows: list[list[Value]] = field(default_factory=list)

    def place(self, name: str) -> int:
        for place, column in enumerate(self.columns):
            if column.name == name:
                return place
        raise Refused(f"Invalid column name '{name}'; {self.name} has {', '.join(c.name for c in self.columns)}", 207)

    def key_of(self, row: Sequence[Value]) -> tuple[Value, ...]:
        return tuple(row[self.place(name)] for name in self.key)

    def find_rows(self, where: Mapping[str, Value]) -> list[list[Value]]:
        """Return the rows in which the columns have these values."""
        cells = [(place, self.columns[place].type.keep_or_null(value)) for place, value in self._cells(where)]
        return [row for row in self.rows if all(row[place] == value for place, value in cells)]

    def new_row(self, values: Mapping[str, Value]) -> list[Value]:
        row = [column.default for column in self.columns]
        self.write(row, values)
        return row

    def write(self, row: list[Value], values: Mapping[str, Value]) -> None:
        """Write values into a row. Refused for an invalid value."""
        for place, value in self._cells(values):
            column = self.columns[place]
            if isinstance(column.type, RowVersion):
                raise Refused("Cannot insert an explicit value into a timestamp column.", 273)
            row[place] = column.type.keep_or_null(value)
        for column, value in zip(self.columns, row, strict=True):
            if value is None and not column.nullable and not isinstance(column.type, RowVersion):
                words = f"Cannot insert the value NULL into column '{column.name}', table '{self.name}'"
                raise Refused(f"{words}; column does not allow nulls.", 515)

    def _cells(self, values: Mapping[str, Value]) -> list[tuple[int, Value]]:
        return [(self.place(name), value) for name, value in values.items()]


class CapturedDatabase:
    """Statements change it, one transaction at a time; a transaction that is refused changes nothing."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.tables: dict[str, CapturedTable] = {}
        self.instances: list[CaptureInstance] = []
        self._log = TransactionLog()
        self._row_versions = 2000
        #: cdc.lsn_time_mapping; a real one has a row from the start too.
        self.commits = [CdcCommit(self._log.next(), datetime(2026, 1, 1, tzinfo=UTC), has_changes=False)]

    def table(self, name: str) -> CapturedTable:
        if name not in self.tables:
            raise Refused(f"Invalid object name '{name}'; there is {', '.join(self.tables) or 'no table'}", 208)
        return self.tables[name]

    def instance(self, name: str) -> CaptureInstance:
        for instance in self.instances:
            if instance.name == name:
                return instance
        raise Refused(f"there is no capture instance {name}", 22985)

    def create_table(self, name: str, columns: Iterable[str], key: Iterable[str], at: datetime) -> None:
        """With a capture instance from the start."""
        if name in self.tables:
            raise Refused(f"There is already an object named '{name}' in the database.", 2714)
        table = CapturedTable(name, [column_of(declaration) for declaration in columns], tuple(key))
        for column in table.key:
            if table.columns[table.place(column)].nullable:
                raise Refused(
                    f"Cannot define PRIMARY KEY constraint on nullable column '{column}' in table '{name}'.", 8111
                )
        self.tables[name] = table
        self._capture(table, f"{SCHEMA}_{name}", at)

    def add_column(self, name: str, declaration: str, at: datetime) -> None:
        """Add a column and a capture instance with it. The oldest of three instances ends, even if a client reads it."""
        table, column = self.table(name), column_of(declaration)
        if any(column.name == other.name for other in table.columns):
            raise Refused(f"Column names in each table must be unique. '{column.name}' is in '{name}'.", 2705)
        if not column.nullable and column.default is None and table.rows:
            raise Refused(
                f"ALTER TABLE only allows columns to be added that can contain nulls or have a default: {declaration}",
                4901,
            )
        table.columns.append(column)
        for row in table.rows:
            # A default fills existing rows only if the column is not nullable.
            row.append(None if column.nullable else column.default)
        own = [instance for instance in self.instances if instance.table == name]
        if len(own) == MOST_INSTANCES:
            self.instances.remove(own[0])
        self._capture(table, f"{SCHEMA}_{name}_v{len(table.columns)}", at)

    def run(self, statements: Sequence[Mapping[str, Any]], at: datetime) -> None:
        """Run inserts, updates and deletes as one transaction."""
        rows_before = {name: [list(row) for row in table.rows] for name, table in self.tables.items()}
        versions = self._row_versions
        try:
            done = [change for statement in statements for change in self._run_one(statement)]
        except Refused:
            for name, rows in rows_before.items():
                self.tables[name].rows = rows
            self._row_versions = versions
            raise
        sequences = [self._log.next() for _ in done]
        commit = self._commit(at, has_changes=True)
        for command, (sequence, (table, before, after)) in enumerate(zip(sequences, done, strict=True), 1):
            moved = before is not None and after is not None and table.key_of(before) != table.key_of(after)
            for instance in self.instances:
                if instance.table == table.name:
                    instance.record(commit, sequence, command, before, after, moved=moved)

    def _run_one(
        self, statement: Mapping[str, Any]
    ) -> list[tuple[CapturedTable, list[Value] | None, list[Value] | None]]:
        """Run a statement; return changed rows before and after, with None for inserts and deletes."""
        table = self.table(statement["table"])
        kinds: dict[str, Callable[[], list[tuple[list[Value] | None, list[Value] | None]]]] = {
            "insert": lambda: [(None, self._insert(table, row)) for row in statement["rows"]],
            "update": lambda: self._update(table, statement["where"], statement["set"]),
            "delete": lambda: [(row, None) for row in self._delete(table, statement["where"])],
        }
        changes = kinds[statement["do"]]()
        self._check_keys(table)
        return [(table, before, after) for before, after in changes]

    def _insert(self, table: CapturedTable, values: Mapping[str, Value]) -> list[Value]:
        row = table.new_row(values)
        self._count_version(table, row)
        table.rows.append(row)
        return list(row)

    def _update(
        self, table: CapturedTable, where: Mapping[str, Value], values: Mapping[str, Value]
    ) -> list[tuple[list[Value] | None, list[Value] | None]]:
        changes: list[tuple[list[Value] | None, list[Value] | None]] = []
        for row in table.find_rows(where):
            before = list(row)
            table.write(row, values)
            self._count_version(table, row)
            changes.append((before, list(row)))
        return changes

    def _delete(self, table: CapturedTable, where: Mapping[str, Value]) -> list[list[Value]]:
        gone = table.find_rows(where)
        table.rows = [row for row in table.rows if not any(row is other for other in gone)]
        return gone

    def _check_keys(self, table: CapturedTable) -> None:
        if not table.key:
            return
        seen = set()
        for row in table.rows:
            if (key := table.key_of(row)) in seen:
                raise Refused(
                    f"Violation of PRIMARY KEY constraint. Cannot insert duplicate key {key} in '{table.name}'.", 2627
                )
            seen.add(key)

    def _count_version(self, table: CapturedTable, row: list[Value]) -> None:
        for place, column in enumerate(table.columns):
            if isinstance(column.type, RowVersion):
                self._row_versions += 1
                row[place] = struct.pack(">Q", self._row_versions)

    def _capture(self, table: CapturedTable, name: str, at: datetime) -> None:
        object_id = 1_000_000 + 32 * len(self.commits)
        columns = tuple(table.columns)
        self.instances.append(
            CaptureInstance(name, object_id, table.name, columns, self._commit(at, has_changes=False).lsn)
        )

    def _commit(self, at: datetime, *, has_changes: bool) -> CdcCommit:
        self.commits.append(CdcCommit(self._log.next(), at, has_changes))
        return self.commits[-1]

    @property
    def last(self) -> Lsn:
        return self.commits[-1].lsn
