"""Tables under test, read by delta-rs, which shares no code with the sink."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from deltalake import DeltaTable, QueryBuilder

from headrace.sdk import MaintenancePolicy
from headrace.testing.tables import Target

HOUR, DAY = 3600.0, 86400.0


def later(seconds: float, *, history: float = HOUR, files: int = 2) -> MaintenancePolicy:
    """Return a policy with a clock that is ahead."""
    return MaintenancePolicy(history, files, clock=lambda: time.time() + seconds)


def folder_of(folder: Path, target: Target) -> Path:
    """Return the folder of the table in the folder of the sink."""
    return folder / target.name.replace(".", "/")


def open_table(folder: Path, target: Target) -> DeltaTable:
    return DeltaTable(str(folder_of(folder, target)))


def read_rows(folder: Path, target: Target) -> list[dict[str, Any]]:
    """Return the rows without headrace's columns, ordered by ``id``."""
    import pyarrow as pa

    query = QueryBuilder().register("t", open_table(folder, target)).execute("SELECT * FROM t ORDER BY id")
    rows = pa.RecordBatchReader.from_stream(query).read_all().to_pylist()
    return [{name: value for name, value in row.items() if not name.startswith("_headrace_")} for row in rows]


def read_actions(folder: Path, target: Target) -> list[dict[str, Any]]:
    """Return the actions of all commits, the oldest first."""
    files = sorted((folder_of(folder, target) / "_delta_log").glob("*.json"))
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]
