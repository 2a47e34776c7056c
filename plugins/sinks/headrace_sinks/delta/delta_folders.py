"""Folders that two tables or two programs share: VACUUM would delete the files of the other one."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from headrace.sdk import ConfigError, Table
from headrace.sdk.storage import Folder
from headrace_sinks.delta.delta_handle import LOG

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    #: Returns the folder of a table.
    Locate = Callable[[Table], str]

#: Names that a killed first batch leaves in a table's folder: data files, folders of partitions, the log.
_LEFTOVER = re.compile(rf"\.?part-.*|.*=.*|{LOG}")
_FIX = "give one of the two tables another `target:`"


def check_outer_tables(spark: SparkSession, table: Table, locate: Locate) -> None:
    """Raise ConfigError for a table in the folder of another table. Tables of one batch are found in the next batch."""
    for count in range(1, len(table.parts)):
        outer = Table(".".join(table.parts[:count]))
        if Folder(spark, f"{locate(outer)}/{LOG}").exists():
            raise ConfigError(
                f"its folder is in the folder of the table {outer.name!r}, whose VACUUM would delete its files",
                where=f"table {table.name}, sink delta, {locate(table)}",
                fix=_FIX,
            )


def check_inner_tables(spark: SparkSession, table: Table, locate: Locate) -> None:
    """Raise ConfigError for a new table around other tables."""
    path = locate(table)
    inner = next(_find_tables(Folder(spark, path)), None)
    if inner is not None:
        raise ConfigError(
            f"its folder has the folder of the table '{table.name}.{inner}', whose files its VACUUM would delete",
            where=f"table {table.name}, sink delta, {path}",
            fix=_FIX,
        )


def check_other_files(spark: SparkSession, table: Table, locate: Locate) -> None:
    """Raise ConfigError for a new table in a folder with files of another program."""
    path = locate(table)
    name = next((name for name in Folder(spark, path).names(hidden=True) if not _LEFTOVER.fullmatch(name)), None)
    if name is not None:
        raise ConfigError(
            f"its folder is not a Delta table and has files of another program, for example {name!r}, which its VACUUM would delete",
            where=f"table {table.name}, sink delta, {path}",
            fix="give the table another `target:`, or move the files",
        )


def _find_tables(folder: Folder) -> Iterator[str]:
    """Find the names of the tables below a folder. A dot in a table's name separates two folders, so no folder has one."""
    for name in folder.names():
        if "." in name:
            continue
        inner = folder.folder(name)
        if inner.folder(LOG).exists():
            yield name
        else:
            yield from (f"{name}.{other}" for other in _find_tables(inner))
