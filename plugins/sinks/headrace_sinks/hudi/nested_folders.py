"""Hudi tables in the folder of a partitioned table, where a partition may have the same name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from headrace.sdk import ConfigError, Table
from headrace.sdk.storage import Folder
from headrace_sinks.hudi.hudi_timeline import has_table, read_config

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    #: Returns the folder of a table.
    Locate = Callable[[Table], str]

_FIX = "give one of the two tables another `target:`"


class TableFolders:
    """The folders of a run's tables, each checked until its table exists. Threads may share it."""

    def __init__(self) -> None:
        self._checked: set[str] = set()

    def check(
        self, spark: SparkSession, table: Table, locate: Locate, *, is_stored: bool, is_partitioned: bool
    ) -> None:
        """Raise ConfigError for a table in the folder of a partitioned table, or for a new one around other tables.

        Tables that are created in the same batch are found in the next batch.
        """
        if table.name in self._checked:
            return
        _check_outer_tables(spark, table, locate)
        if is_stored:
            self._checked.add(table.name)
        elif is_partitioned:
            _check_inner_tables(spark, table, locate)


def _check_outer_tables(spark: SparkSession, table: Table, locate: Locate) -> None:
    for count in range(1, len(table.parts)):
        outer = Table(".".join(table.parts[:count]))
        config = read_config(spark, locate(outer))
        if config is not None and len(config.getPartitionFields().orElse([])):
            raise ConfigError(
                f"its folder is in the folder of the partitioned table {outer.name!r}, where a value may have the same name",
                where=f"table {table.name}, sink hudi, {locate(table)}",
                fix=_FIX,
            )


def _check_inner_tables(spark: SparkSession, table: Table, locate: Locate) -> None:
    path = locate(table)
    inner = next(_find_tables(spark, path), None)
    if inner is not None:
        raise ConfigError(
            f"its folder has the folder of the table '{table.name}.{inner}', and a partition may have the same name",
            where=f"table {table.name}, sink hudi, {path}",
            fix=_FIX,
        )


def _find_tables(spark: SparkSession, path: str) -> Iterator[str]:
    """Find the names of the tables below a folder. A dot in a table's name separates two folders, so no folder has one."""
    for name in Folder(spark, path).names():
        if "." in name:
            continue
        if has_table(spark, f"{path}/{name}"):
            yield name
        else:
            yield from (f"{name}.{inner}" for inner in _find_tables(spark, f"{path}/{name}"))
