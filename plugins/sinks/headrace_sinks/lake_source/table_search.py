"""Search for the tables that the options of a source name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from functools import partial
from typing import TYPE_CHECKING

from headrace.sdk import ConfigError, Table
from headrace.sdk.options import did_you_mean
from headrace_sinks.lake_source.lake_tables import LakeTables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_GLOB = frozenset("*?[")


def is_glob(name: str) -> bool:
    """Return whether a name is a glob."""
    return not _GLOB.isdisjoint(name)


def find_tables(
    tables: LakeTables, spark: SparkSession, names: Sequence[str], exclude: Sequence[str], known: Iterable[str]
) -> list[str]:
    """Return the names of the tables. ConfigError for a name or a glob without a table, except the ``known`` tables, which have rows."""
    found = dict[str, None]()
    for name in names:
        matches = list(_expand(tables, spark, name))
        if not matches and not any(_matches(table, name) for table in known):
            raise _explain_missing(tables, spark, name)
        found |= dict.fromkeys(table for table in matches if not any(_matches(table, glob) for glob in exclude))
    if not found and not known:
        raise ConfigError(
            "`exclude` leaves no table", where=f"{tables.label}, exclude", fix="correct `exclude` or `tables`"
        )
    return list(found)


def _matches(name: str, glob: str) -> bool:
    parts, globs = name.split("."), glob.split(".")
    return len(parts) == len(globs) and all(map(fnmatchcase, parts, globs))


def _expand(tables: LakeTables, spark: SparkSession, name: str) -> Iterator[str]:
    if not is_glob(name):
        yield from [name] if tables.has_table(spark, Table(name)) else []
        return
    *namespaces, last = name.split(".")
    parents: list[tuple[str, ...]] = [()]
    for glob in namespaces:
        parents = [(*p, found) for p in parents for found in _choose(partial(tables.list_namespaces, spark, p), glob)]
    for parent in parents:
        yield from (".".join([*parent, found]) for found in _choose(partial(tables.list_tables, spark, parent), last))


def _choose(list_names: Callable[[], list[str]], glob: str) -> list[str]:
    return sorted(found for found in list_names() if fnmatchcase(found, glob)) if is_glob(glob) else [glob]


def _explain_missing(tables: LakeTables, spark: SparkSession, name: str) -> ConfigError:
    where = f"{tables.label}, tables"
    if is_glob(name):
        fix = "correct the glob: a `*` stays within one part of a name, such as `silver.*`"
        return ConfigError(f"no table matches {name!r}", where=where, fix=fix)
    *parents, _ = name.split(".")
    others = [".".join([*parents, other]) for other in tables.list_tables(spark, parents)]
    fix = (
        did_you_mean(name, others) if others else f"correct the name; {'.'.join(parents) or 'the catalog'} has no table"
    )
    return ConfigError(f"there is no table {name!r}", where=where, fix=fix)
