"""Table of the database: columns, row images, and the effect of events."""

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from moma_bronze.history import DATES, Row

TEXT: Any = "string"
TEXT_ARRAY: Any = {"type": "array", "items": ["null", "string"]}


@dataclass(frozen=True)
class Column:
    """Column of a table. ``field``: the museum's field; ``type``: Avro type; ``since``: date at which the column was added."""

    name: str
    field: str
    type: Any = TEXT
    since: str = DATES[0]

    def value(self, row: Row) -> Any:
        """Return the value of the column in a row of the museum."""
        value = row.get(self.field)
        return int(value) if self.type == "int" and value is not None else value


@dataclass(frozen=True)
class Table:
    """Table of the schema public. The first column is the key."""

    name: str
    columns: tuple[Column, ...]

    @property
    def topic(self) -> str:
        """The topic of the table's events."""
        return f"moma.public.{self.name}"

    @property
    def key(self) -> str:
        """The key's column name."""
        return self.columns[0].name

    def at(self, date: str) -> "Table":
        """Return the definition of the table at a date."""
        return replace(self, columns=tuple(column for column in self.columns if column.since <= date))

    def image(self, row: Row | None) -> Row | None:
        """Convert a row of the museum into a row of the table."""
        return None if row is None else {column.name: column.value(row) for column in self.columns}

    def replay(self, state: dict[Any, Row], events: Iterable[Row]) -> None:
        """Apply events in order to ``state``, which maps keys to rows."""
        for event in events:
            if event["op"] == "d":
                del state[event["before"][self.key]]
            else:
                state[event["after"][self.key]] = event["after"]

    def digest(self, rows: Iterable[Row]) -> str:
        """Return the SHA-256 of the rows in key order; each row is a compact JSON array of all columns and a line feed."""
        out = hashlib.sha256()
        for row in sorted(rows, key=lambda row: int(row[self.key])):
            values = [row.get(column.name) for column in self.columns]
            out.update(json.dumps(values, ensure_ascii=False, separators=(",", ":")).encode() + b"\n")
        return out.hexdigest()
