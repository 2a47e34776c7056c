"""Columns by name, and as steps of a plan."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, TypeVar

from headrace.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

Item = TypeVar("Item")


def quote_name(name: str) -> str:
    """A column name as Spark's SQL reads it literally."""
    return "`" + name.replace("`", "``") + "`"


def barrier(column: Column) -> Column:
    """The column as a step of its own: a filter above is not written out in terms of what it is made from.

    Spark would do that once for every mention, and parse each time; with steps above steps such a plan has no end.
    """
    from pyspark.sql import functions as F

    return F.when(F.spark_partition_id() >= 0, column)


def name_fold(session: SparkSession) -> Callable[[str], str]:
    """What makes one text of all names that the session takes for the same, by ``spark.sql.caseSensitive``."""
    return str if session.conf.get("spark.sql.caseSensitive") == "true" else str.lower


def fold_keys(by_name: Mapping[str, Item], fold: Callable[[str], str]) -> dict[str, Item]:
    """The items by their folded names. ConfigError when two of the names are one."""
    written: dict[str, str] = {}
    for name in by_name:
        other = written.setdefault(fold(name), name)
        if other != name:
            raise ConfigError(
                f"{other!r} and {name!r} are one column",
                fix="leave one of them out; with `spark.sql.caseSensitive: true` under `spark:` they are two",
            )
    return {fold(name): item for name, item in by_name.items()}


def match_names(session: SparkSession, wanted: Iterable[str], names: Iterable[str]) -> dict[str, str]:
    """Those of ``names`` that the session takes for one of ``wanted`` → how they are written there."""
    fold = name_fold(session)
    by_name = fold_keys({name: name for name in wanted}, fold)
    return {name: by_name[fold(name)] for name in names if fold(name) in by_name}
