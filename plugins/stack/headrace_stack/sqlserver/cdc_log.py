"""Journal of the changes that tests request; a restarted server replays it."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from headrace_stack.sqlserver.database import CapturedDatabase
from headrace_stack.sqlserver.sql_types import Value


class Journal:
    """Journal of the applied changes in a file."""

    def __init__(self, file: Path, database: CapturedDatabase, lock: threading.Lock) -> None:
        self._file, self._database, self._lock = file, database, lock
        file.touch()
        # An incomplete last line means that the process was killed before it confirmed the change.
        *lines, half = file.read_bytes().split(b"\n")
        os.truncate(file, file.stat().st_size - len(half))
        for line in lines:
            at, work = json.loads(line)
            self._do(_decode_work(work), datetime.fromisoformat(at))

    def change(self, work: dict[str, Any]) -> None:
        """Apply and record a change. Refused for an error of the database."""
        at = datetime.now(UTC)
        with self._lock, self._file.open("a", encoding="utf-8") as file:
            self._do(_decode_work(work), at)
            file.write(json.dumps([at.isoformat(), work]) + "\n")

    def rows(self, table: str) -> list[dict[str, Any]]:
        """Return all rows in key order."""
        with self._lock:
            stored = self._database.table(table)
            names = [column.name for column in stored.columns]
            rows = sorted(stored.rows, key=stored.key_of)
            return [dict(zip(names, map(encode_value, row), strict=True)) for row in rows]

    def _do(self, work: dict[str, Any], at: datetime) -> None:
        known: dict[str, Callable[[], None]] = {
            "create": lambda: self._database.create_table(work["table"], work["columns"], work["key"], at),
            "add column": lambda: self._database.add_column(work["table"], work["column"], at),
            "transaction": lambda: self._database.run(work["statements"], at),
        }
        known[work["do"]]()


def encode_value(value: Value) -> Any:
    """Encode a value for JSON, which has no type for bytes."""
    return {"hex": value.hex()} if isinstance(value, bytes) else value


def decode_value(value: Any) -> Value:
    """Decode a value that ``encode_value`` encoded."""
    decoded: Value = bytes.fromhex(value["hex"]) if isinstance(value, dict) else value
    return decoded


def _decode_work(work: dict[str, Any]) -> dict[str, Any]:
    def cells(row: dict[str, Any]) -> dict[str, Value]:
        return {name: decode_value(value) for name, value in row.items()}

    def statement(given: dict[str, Any]) -> dict[str, Any]:
        rows = {"rows": [cells(row) for row in given["rows"]]} if "rows" in given else {}
        return {**given, **rows, **{part: cells(given[part]) for part in ("where", "set") if part in given}}

    return {**work, **({"statements": list(map(statement, work["statements"]))} if "statements" in work else {})}
