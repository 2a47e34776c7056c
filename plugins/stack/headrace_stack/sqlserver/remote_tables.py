"""Tables of the stand-in, changed from another process."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from headrace_stack.servers.json_http import request
from headrace_stack.sqlserver.cdc_log import decode_value, encode_value
from headrace_stack.sqlserver.sql_types import Refused, Value


class TableChanges:
    """Statements of one transaction."""

    def __init__(self) -> None:
        self.statements: list[dict[str, Any]] = []

    def insert(self, table: str, *rows: Mapping[str, Value]) -> None:
        """Insert rows; omitted columns get their default."""
        self.statements.append({"do": "insert", "table": table, "rows": [_cells(row) for row in rows]})

    def update(self, table: str, where: Mapping[str, Value], changed: Mapping[str, Value]) -> None:
        """Change the rows in which all columns of ``where`` have its values; an empty ``where`` is all rows."""
        self.statements.append({"do": "update", "table": table, "where": _cells(where), "set": _cells(changed)})

    def delete(self, table: str, where: Mapping[str, Value]) -> None:
        """Remove the rows that ``update`` would change."""
        self.statements.append({"do": "delete", "table": table, "where": _cells(where)})


class RemoteTables(ABC):
    """Captured tables of the schema dbo. An error of the database raises ``Refused``.

    Values are None, numbers, bytes and strings. Decimals, dates, times and GUIDs are strings in SQL Server's format.
    """

    @property
    @abstractmethod
    def control_url(self) -> str:
        """URL for changes."""

    def create_table(self, name: str, columns: Sequence[str], key: Sequence[str] = ()) -> None:
        """Create a table. ``columns``: ``name type [not null] [default literal]``; ``key``: columns of the primary key."""
        self._request({"do": "create", "table": name, "columns": list(columns), "key": list(key)})

    def add_column(self, table: str, column: str) -> None:
        """Add a column and a capture instance, to which the connector switches. A third instance ends the oldest."""
        self._request({"do": "add column", "table": table, "column": column})

    def rows(self, table: str) -> list[dict[str, Value]]:
        """Return the current rows in key order."""
        rows = self._request({"do": "rows", "table": table})
        return [{name: decode_value(value) for name, value in row.items()} for row in rows]

    @contextmanager
    def transaction(self) -> Iterator[TableChanges]:
        """Commit changes together at the end of the block; discard them if it raises."""
        changes = TableChanges()
        yield changes
        self._request({"do": "transaction", "statements": changes.statements})

    def insert(self, table: str, *rows: Mapping[str, Value]) -> None:
        """Insert rows in one transaction; omitted columns get their default."""
        with self.transaction() as changes:
            changes.insert(table, *rows)

    def update(self, table: str, where: Mapping[str, Value], changed: Mapping[str, Value]) -> None:
        """Change the rows in which all columns of ``where`` have its values; an empty ``where`` is all rows."""
        with self.transaction() as changes:
            changes.update(table, where, changed)

    def delete(self, table: str, where: Mapping[str, Value]) -> None:
        """Remove the rows that ``update`` would change."""
        with self.transaction() as changes:
            changes.delete(table, where)

    def _request(self, work: dict[str, Any]) -> Any:
        code, answer = request("POST", self.control_url, work)
        if code != 200:
            raise Refused(answer["words"], answer["number"])
        return answer


def _cells(row: Mapping[str, Value]) -> dict[str, Any]:
    return {name: encode_value(value) for name, value in row.items()}
