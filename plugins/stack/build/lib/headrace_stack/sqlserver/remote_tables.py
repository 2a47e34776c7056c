"""Tables of the stand-in, changed from another process."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from headrace_stack.servers.json_http import request
from headrace_stack.sqlserver.cdc_log import decode_value, encode_value
from headrace_stack.sqlserver.sql_types import Refused, Value


class Changes:
    """The statements of one transaction."""

    def __init__(self) -> None:
        self.statements: list[dict[str, Any]] = []

    def insert(self, table: str, *rows: Mapping[str, Value]) -> None:
        """Columns that a row leaves out get their default."""
        self.statements.append({"do": "insert", "table": table, "rows": [_cells(row) for row in rows]})

    def update(self, table: str, where: Mapping[str, Value], changed: Mapping[str, Value]) -> None:
        """Change the rows in which all columns of ``where`` have its values; an empty ``where`` is all rows."""
        self.statements.append({"do": "update", "table": table, "where": _cells(where), "set": _cells(changed)})

    def delete(self, table: str, where: Mapping[str, Value]) -> None:
        """Remove the rows that ``update`` would change."""
        self.statements.append({"do": "delete", "table": table, "where": _cells(where)})


class Tables(ABC):
    """The tables of schema dbo, all of them captured. What the database does not take raises ``Refused``.

    Values are None, numbers, bytes and text; text stands for decimals, dates, times and GUIDs, and what comes back is
    as SQL Server prints it.
    """

    @property
    @abstractmethod
    def control_url(self) -> str:
        """The URL at which the stand-in takes changes."""

    def create_table(self, name: str, columns: Sequence[str], key: Sequence[str] = ()) -> None:
        """``columns`` as SQL has them, ``name type [not null] [default literal]``; ``key``: of the primary key."""
        self._ask({"do": "create", "table": name, "columns": list(columns), "key": list(key)})

    def add_column(self, table: str, column: str) -> None:
        """And a capture instance that has it, which the connector goes over to. The older one ends at the third."""
        self._ask({"do": "add column", "table": table, "column": column})

    def rows(self, table: str) -> list[dict[str, Value]]:
        """The rows that the table has now, in order of its key."""
        rows = self._ask({"do": "rows", "table": table})
        return [{name: decode_value(value) for name, value in row.items()} for row in rows]

    @contextmanager
    def transaction(self) -> Iterator[Changes]:
        """Changes that are committed together when the block ends; one that raises changes nothing."""
        changes = Changes()
        yield changes
        self._ask({"do": "transaction", "statements": changes.statements})

    def insert(self, table: str, *rows: Mapping[str, Value]) -> None:
        """Insert rows in a transaction of its own; columns that a row leaves out get their default."""
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

    def _ask(self, work: dict[str, Any]) -> Any:
        code, answer = request("POST", self.control_url, work)
        if code != 200:
            raise Refused(answer["words"], answer["number"])
        return answer


def _cells(row: Mapping[str, Value]) -> dict[str, Any]:
    return {name: encode_value(value) for name, value in row.items()}
