"""Tables of other formats in the folder of a new table. Readers of either table, or its maintenance, would take the files of the other."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from headrace.sdk import ConfigError
from headrace.sdk.storage import Folder
from headrace_sinks.files_catalog import BATCH

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Sink → folder in that of its tables, and pattern of the names in it of which each table has one.
_SIGNS = {
    "delta": ("_delta_log", re.compile(r"\d+\.json|\d+\.checkpoint\..*")),
    "hudi": (".hoodie", re.compile(r"hoodie\.properties")),
    "iceberg": ("metadata", re.compile(r".*\.metadata\.json(\.gz)?")),
}


def check_other_formats(spark: SparkSession, name: str, path: str, sink: str) -> None:
    """Raise ConfigError for a new table of a sink in the folder of a table of another format."""
    if (other := _find_format(Folder(spark, path), sink)) is not None:
        raise ConfigError(
            f"its folder has a table of the format {other}, and tables of two formats in one folder become unreadable or lose files",
            where=f"table {name}, sink {sink}, {path}",
            fix="give the table another `target:`, or the sink another folder; or move the other table away",
        )


def _find_format(folder: Folder, own: str) -> str | None:
    """Find the format of a table in a folder, other than ``own``; None when there is none."""
    names = folder.names(hidden=True)
    for other, (inner, pattern) in _SIGNS.items():
        is_there = other != own and inner in names
        if is_there and any(map(pattern.fullmatch, folder.folder(inner).names(hidden=True))):
            return other
    has_batches = own != "files" and any(name.startswith(f"{BATCH}=") for name in names)
    return "files" if has_batches else None
