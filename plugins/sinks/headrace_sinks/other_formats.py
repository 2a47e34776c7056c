"""Tables of other formats in the folder of a new table, or around it.

Readers of either table, or its maintenance, would take the files of the other.
"""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING

from headrace.sdk import ConfigError
from headrace.sdk.storage import Folder
from headrace_sinks.files_catalog import BATCH
from headrace_sinks.nested_tables import TableFolders

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Sink → folder in that of its tables, and pattern of the names in it of which each table has one.
_SIGNS = {
    "delta": ("_delta_log", re.compile(r"\d+\.json|\d+\.checkpoint\..*")),
    "hudi": (".hoodie", re.compile(r"hoodie\.properties")),
    "iceberg": ("metadata", re.compile(r".*\.metadata\.json(\.gz)?")),
}


#: Formats with programs that delete all unknown files in the folder of a table, at any depth.
_DELETING = ("delta", "iceberg")
_OUTER_EFFECT = "and VACUUM of Delta or remove_orphan_files of Iceberg would delete its files there"


def check_other_formats(spark: SparkSession, name: str, path: str, sink: str) -> None:
    """Raise ConfigError for a new table of a sink in the folder of a table of another format.

    In a folder of such a folder, the table is only refused if the other format deletes unknown files.
    """
    folder = Folder(spark, path)
    if (other := _find_format(folder, sink)) is not None:
        raise ConfigError(
            f"its folder has a table of the format {other}, and tables of two formats in one folder become unreadable or lose files",
            where=f"table {name}, sink {sink}, {path}",
            fix="give the table another `target:`, or the sink another folder; or move the other table away",
        )
    has_deleting = partial(_has_deleting_table, own=sink)
    outer = TableFolders(sink, has_deleting, has_deleting, _OUTER_EFFECT, "")
    outer.check(spark, name, folder.path, is_stored=False, is_exclusive=False)


def _has_deleting_table(spark: SparkSession, path: str, own: str) -> bool:
    folder = Folder(spark, path)
    return any(_has_table(folder, other) for other in _DELETING if other != own)


def _find_format(folder: Folder, own: str) -> str | None:
    """Find the format of a table in a folder, other than ``own``; None when there is none."""
    names = folder.names(hidden=True)
    for other, (inner, _) in _SIGNS.items():
        if other != own and inner in names and _has_table(folder, other):
            return other
    has_batches = own != "files" and any(name.startswith(f"{BATCH}=") for name in names)
    return "files" if has_batches else None


def _has_table(folder: Folder, kind: str) -> bool:
    inner, pattern = _SIGNS[kind]
    return any(map(pattern.fullmatch, folder.folder(inner).names(hidden=True)))
