"""Names and globs of tables, and ranges of versions, without Spark."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pytest

from headrace import ConfigError
from headrace.sdk import Sink, Source, Table
from headrace.sdk.sink import TableVersion
from headrace_sinks.delta import DeltaSink
from headrace_sinks.delta.delta_source import DeltaSource
from headrace_sinks.hudi.hudi_source import HudiSource
from headrace_sinks.iceberg import IcebergSink
from headrace_sinks.iceberg.iceberg_source import IcebergSource
from headrace_sinks.lake_source.lake_tables import LakeTables
from headrace_sinks.lake_source.table_search import find_tables
from headrace_sinks.lake_source.version_range import VersionRange

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAMES = ("audit", "silver.orders", "silver.order_items", "silver.eu.orders", "bronze.orders")


class ListedTables(LakeTables):
    """Tables of a list."""

    def __init__(self) -> None:
        super().__init__(DeltaSink(path="lake"))

    def list_namespaces(self, spark: SparkSession, parents: Sequence[str]) -> list[str]:
        return [parts[-1] for parts in self._list(lambda parts: parts[:-1]) if parts[:-1] == [*parents]]

    def list_tables(self, spark: SparkSession, parents: Sequence[str]) -> list[str]:
        return [parts[-1] for parts in self._list(lambda parts: parts) if parts[:-1] == [*parents]]

    def has_table(self, spark: SparkSession, table: Table) -> bool:
        return table.name in NAMES

    def _list(self, choose: Any) -> list[list[str]]:
        found = [choose(name.split(".")) for name in NAMES]
        return [parts for number, parts in enumerate(found) if parts and parts not in found[:number]]


def search(*names: str, exclude: Sequence[str] = (), known: Sequence[str] = ()) -> list[str]:
    session: Any = None
    return find_tables(ListedTables(), session, names, exclude, known)


@pytest.mark.parametrize(
    ("names", "found"),
    [
        (["silver.orders"], ["silver.orders"]),
        (["silver.*"], ["silver.order_items", "silver.orders"]),
        (["*.orders"], ["bronze.orders", "silver.orders"]),
        (["*"], ["audit"]),
        (["silver.*.*"], ["silver.eu.orders"]),
        (["silver.orders", "*.orders"], ["silver.orders", "bronze.orders"]),
    ],
)
def test_names_and_globs_select_tables(names: list[str], found: list[str]) -> None:
    assert search(*names) == found


def test_exclude_leaves_tables_out() -> None:
    assert search("silver.*", exclude=["*.*_items"]) == ["silver.orders"]
    assert search("silver.*", exclude=["*"]) == ["silver.order_items", "silver.orders"]


@pytest.mark.parametrize(
    ("names", "exclude", "message", "fix"),
    [
        (["silver.oders"], [], "there is no table 'silver.oders'", "did you mean 'silver.orders'"),
        (["gold.orders"], [], "there is no table 'gold.orders'", "gold has no table"),
        (["gold.*"], [], "no table matches 'gold.*'", "correct the glob"),
        (["silver.orders"], ["silver.*"], "`exclude` leaves no table", "correct `exclude` or `tables`"),
    ],
)
def test_names_without_a_table_are_errors(names: list[str], exclude: list[str], message: str, fix: str) -> None:
    with pytest.raises(ConfigError) as error:
        search(*names, exclude=exclude)
    assert message in str(error.value)
    assert fix in str(error.value.fix)


def test_dropped_table_that_was_read_is_no_error() -> None:
    assert search("silver.orders", "gold.orders", known=["gold.orders"]) == ["silver.orders"]
    assert search("silver.orders", "gold.*", known=["gold.orders"]) == ["silver.orders"]


@pytest.mark.parametrize("limit", [None, 1])
def test_bounded_run_ends_although_the_table_grows(limit: int | None) -> None:
    versions = [TableVersion("0", 0)]

    class GrowingTables(ListedTables):
        """Tables with one more version at each call."""

        def find_newest(self, spark: SparkSession, table: Table) -> TableVersion:
            versions.append(TableVersion(str(len(versions)), len(versions)))
            return versions[-1]

        def list_later(self, spark: SparkSession, table: Table, version: str) -> list[TableVersion]:
            return versions[int(version) + 1 :]

    session: Any = object()
    source = DeltaSource(path="lake", tables=["silver.orders"])
    source.__dict__["_tables"] = GrowingTables()
    source.open(session)
    source.prepare_for_trigger_available_now()
    offsets = [source.initial()]
    while len(offsets) < 10 and (end := source.latest(offsets[-1], limit)) != offsets[-1]:
        offsets.append(end)
    assert [offset["tables"]["silver.orders"]["upto"] for offset in offsets[1:]] == ["1"]


def test_order_of_ranges_increases_although_the_time_goes_back() -> None:
    first = VersionRange.plan(None, TableVersion("7", 1000))
    back = VersionRange.plan(first, TableVersion("3", 400))
    later = VersionRange.plan(back, TableVersion("8", 2000))
    assert [(found.after, found.upto, found.order) for found in (first, back, later)] == [
        (None, "7", 1000),
        ("7", "3", 1001),
        ("3", "8", 2000),
    ]
    assert VersionRange.of_json(back.to_json()) == back


@pytest.mark.parametrize("name", ["", ".orders", "silver.", "silver..orders"])
def test_name_with_an_empty_part_is_an_error(name: str) -> None:
    with pytest.raises(ConfigError, match="is not the name of a table"):
        DeltaSource(path="lake", tables=[name])


@pytest.mark.parametrize(
    ("sink", "source"),
    [
        (IcebergSink(warehouse="lake"), IcebergSource(warehouse="./lake/", tables="silver.orders")),
        (DeltaSink(path="lake"), DeltaSource(path="lake", tables="silver.orders")),
        (DeltaSink(path="lake"), HudiSource(path="lake", tables=["silver.orders"])),
        (IcebergSink(catalog="lake"), IcebergSource(catalog="lake", tables=["silver.orders"])),
    ],
)
def test_source_and_sink_must_not_be_the_same_table(sink: Sink, source: Source) -> None:
    sink.check_source(source, ["silver.items", "gold.orders"])
    with pytest.raises(ConfigError, match=r"the source reads the table silver\.orders, to which the sink writes"):
        sink.check_source(source, ["silver.orders"])
