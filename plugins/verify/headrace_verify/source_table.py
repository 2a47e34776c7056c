"""Tables of a source database, and what a kind of database adds to the comparison."""

from __future__ import annotations

import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from headrace.sdk import ConfigError, HeadraceError

Query = Callable[[str], list[tuple[Any, ...]]]


@dataclass(frozen=True)
class SourceColumn:
    """Column of a table of the database. ``kind``: its type without a precision; ``scale``: digits after the point, if fixed."""

    name: str
    kind: str
    scale: int | None = None


@dataclass(frozen=True)
class SourceTable:
    """Table of the database with its columns, and those of its primary key."""

    schema: str
    name: str
    columns: tuple[SourceColumn, ...]
    key: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.schema}.{self.name}"


class SourceDatabase(ABC):
    """Open connection to a database, with the SQL of its kind.

    ``options``: those of the connector; ``read_offsets``: returns the offsets that the connector has committed.
    """

    noun: ClassVar[str] = "the database"
    #: SQL of a text's length in bytes.
    byte_length: ClassVar[str]

    def __init__(
        self, query: Query, options: Mapping[str, str], read_offsets: Callable[[], list[dict[str, Any]]] | None = None
    ) -> None:
        self.query, self.options, self.read_offsets = query, options, read_offsets
        self.prepare_session()

    @abstractmethod
    def prepare_session(self) -> None:
        """Set UTC and formats of values. ConfigError for a database whose texts cannot be compared."""

    @abstractmethod
    def list_tables(self) -> list[tuple[str, str]]:
        """Return schema and name of each table."""

    @abstractmethod
    def describe(self, schema: str, name: str) -> SourceTable:
        """Return a table with its columns."""

    @abstractmethod
    def estimate_rows(self, table: SourceTable) -> int:
        """Return the approximate number of rows."""

    @abstractmethod
    def quote(self, name: str) -> str:
        """Return a quoted name."""

    @abstractmethod
    def join(self, texts: Sequence[str]) -> str:
        """Return the SQL of texts, joined by ``|``."""

    @abstractmethod
    def concat(self, *texts: str) -> str:
        """Return the SQL of texts, one after the other."""

    @abstractmethod
    def hash(self, text: str) -> str:
        """Return the SQL of the MD5 of a text, as hexadecimal digits."""

    @abstractmethod
    def number(self, digits: str) -> str:
        """Return the SQL of the first 15 hexadecimal digits as a number."""

    def quote_text(self, text: str) -> str:
        """Return a literal."""
        return "'" + text.replace("'", "''") + "'"

    @property
    def row_version(self) -> str:
        """SQL of a value that changes with each update of a row; a constant if there is none."""
        return "0"

    @abstractmethod
    def count_active(self) -> int:
        """Return the number of other sessions that run a statement now. ConfigError if the user may not see them."""

    def send_signal(self, kind: str, data: str) -> str:
        """Write a row into the connector's signal table, and return its id. ``data``: JSON."""
        schema, _, table = self.options.get("signal.data.collection", "").partition(".")
        if not table:
            fix = "create it, and set `signal.data.collection` in `connect: {config: …}`"
            raise ConfigError("the connector has no signal table", fix=fix)
        name = str(uuid.uuid4())
        values = ", ".join(map(self.quote_text, (name, kind, data)))
        try:
            self.query(f"insert into {self.quote(schema)}.{self.quote(table)} (id, type, data) values ({values})")
        except HeadraceError as error:
            fix = f"create the signal table {schema}.{table}, and grant INSERT on it"
            raise ConfigError(f"no signal can be written: {error.what}", where=error.where, fix=fix) from error
        return name

    @abstractmethod
    def mark(self) -> Any:
        """Write a marker into the log, and return its position: changes that were visible before have lower positions."""

    @abstractmethod
    def has_delivered(self, mark: Any) -> bool:
        """Return whether the connector has delivered all changes before a marker."""

    def reference(self, table: SourceTable) -> str:
        """Return the quoted path of a table."""
        return f"{self.quote(table.schema)}.{self.quote(table.name)}"


def require_key(table: SourceTable) -> SourceTable:
    """Return the table. ConfigError if it has no primary key."""
    if not table.key:
        raise ConfigError(f"{table} has no primary key", fix="add a primary key: rows without one cannot be matched")
    return table
