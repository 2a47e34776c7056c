"""Folders that two tables or two programs share: VACUUM would delete the files of the other one."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING
from urllib.parse import unquote

from headrace.sdk import ConfigError
from headrace.sdk.storage import Folder
from headrace_sinks.delta.delta_handle import LOG
from headrace_sinks.nested_tables import TableFolders

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Visible names of files in the folder of a table: data files and deletion vectors.
_OWN_FILE = re.compile(r"part-.*\.parquet|deletion_vector_.*\.bin")


def make_table_folders() -> TableFolders:
    """Return the folders of the tables of a run. No table allows another one in its folder."""
    return TableFolders(
        "delta", _has_log, _has_log, "whose VACUUM would delete its files", "whose files its VACUUM would delete"
    )


def check_other_files(
    spark: SparkSession, name: str, path: str, columns: Sequence[str] = (), prefix_length: int = 0
) -> None:
    """Raise ConfigError for a new table in a folder with files of another program.

    ``columns``, ``prefix_length``: as for ``find_other_file``, of the new table.
    """
    names = Folder(spark, path).names(hidden=True)
    # Delta creates the folder of the log before it writes files, so a killed first batch leaves no files without it.
    is_own = LOG in names
    other = find_other_file(spark, path, columns, prefix_length) if is_own else next(iter(names), None)
    if other is not None:
        raise ConfigError(
            f"its folder is not a Delta table and has files of another program, for example {other!r}, which its VACUUM would delete",
            where=f"table {name}, sink delta, {path}",
            fix="give the table another `target:`, or move the files",
        )


def find_other_file(spark: SparkSession, path: str, columns: Sequence[str] = (), prefix_length: int = 0) -> str | None:
    """Find a file or folder in the folder of a table that is not the table's; None when there is none.

    Names that readers ignore are left out, as VACUUM does not delete them. ``columns``: those of the table's partitions, of which the
    first one names folders. ``prefix_length``: length of the names of Delta's folders with random names, which replace those of
    partitions; 0 when the table has none.
    """
    random = re.compile(rf"[0-9A-Za-z]{{{prefix_length}}}")

    def is_own(name: str) -> bool:
        column, is_partition, _ = name.partition("=")
        is_partition_folder = bool(is_partition) and unquote(column) in columns[:1]
        return is_partition_folder or bool(_OWN_FILE.fullmatch(name) or random.fullmatch(name))

    return next((name for name in Folder(spark, path).names() if not is_own(name)), None)


def _has_log(spark: SparkSession, path: str) -> bool:
    return Folder(spark, f"{path}/{LOG}").exists()
