"""Third-party connectors: a plugin defines the event order of a database, and the dialects use it."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import types as T
from tests.support import redwood
from tests.support.records import make_changes, record, rows_of
from tests.support.redwood import Redwood
from tests.support.tiers import nightly_after

from headrace.errors import DataError
from headrace.registry.plugin_registry import PluginRegistry
from headrace.registry.registration import Broken
from headrace.sdk import Events, hookimpl
from headrace.sdk.changes import DELETED, OFFSET, POSITION, SNAPSHOT
from headrace.sdk.dialect import Dialect
from headrace.testing.connectors import ConnectorBench, ConnectorConformance
from headrace_sources.connectors.mysql import MariaDbConnector, MySqlConnector
from headrace_sources.connectors.postgresql import PostgreSqlConnector
from headrace_sources.connectors.sqlserver import SqlServerConnector
from headrace_sources.dialects import log_positions
from headrace_sources.dialects.debezium import DebeziumDialect
from headrace_sources.dialects.flat import FlatDialect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.one_spark]


class Outdated(Redwood):
    name = "broken"
    api_version = 99


class Raises(Redwood):
    name = "raises"

    def __init__(self, config: Any = None, **options: Any) -> None:
        raise ValueError("no license")


@pytest.fixture
def plugins(monkeypatch: pytest.MonkeyPatch) -> PluginRegistry:
    """Return a registry with the installed plugins and a third-party distribution."""
    known = PluginRegistry.from_entry_points()
    known.register(redwood, "headrace-redwood 1.0")
    monkeypatch.setattr(log_positions, "get_registry", lambda: known)
    return known


def source(name: str, **fields: Any) -> dict[str, Any]:
    """Return a source block. Every connector writes a ``sequence``, and most leave it null."""
    return {"connector": name, "sequence": None, **fields}


#: In commit order. Their offsets and their own SCNs have other orders.
CHANGES = (
    ("u", {"scn": "90", "commit_scn": "99"}),
    ("u", {"scn": "80", "commit_scn": "100"}),
    ("d", {"scn": "81", "commit_scn": "100"}),
    ("c", {"scn": "1000", "commit_scn": "1001"}),
)


def envelopes() -> Iterator[dict[str, Any]]:
    row = {"id": 1, "name": "Arp"}
    for op, fields in CHANGES:
        image = {"before": row, "after": None} if op == "d" else {"before": None, "after": row}
        yield {**image, "op": op, "source": source("redwood", **fields)}


def flat_rows() -> Iterator[dict[str, Any]]:
    for op, fields in CHANGES:
        added = {f"__{name}": value for name, value in fields.items()}
        yield {"id": 1, "name": "Arp", "__op": op, "__deleted": str(op == "d").lower(), **added}


@pytest.mark.parametrize(
    ("dialect", "events"), nightly_after(1, [(DebeziumDialect(), envelopes), (FlatDialect(), flat_rows)])
)
def test_third_party_connector_orders_its_events(
    spark: SparkSession, plugins: PluginRegistry, dialect: Dialect, events: Any
) -> None:
    values = list(events())
    offsets = [3, 1, 2, 0]
    records = [record(value, key={"id": 1}, offset=at) for value, at in zip(values, offsets, strict=True)]
    (changes,) = make_changes(spark, records, dialect=dialect).values()
    found = sorted(rows_of(changes, POSITION, OFFSET, DELETED), key=lambda row: row[POSITION])
    assert [row[OFFSET] for row in found] == offsets
    assert [row[DELETED] for row in found] == [False, False, True, False]


#: Fields of MySQL's and SQL Server's source blocks, which other connectors have, too; positions fall while offsets rise.
SHARED_FIELDS = (
    (
        "cassandra",
        "mysql",
        {"file": "CommitLog-7-1651752179377.log", "pos": 514545},
        {"file": "CommitLog-7-1.log", "pos": 1},
    ),
    ("db2", "sqlserver", {"commit_lsn": "00000025:00000d58:0003"}, {"commit_lsn": "00000024:00000d58:0003"}),
    ("ferretdb", "postgresql", {"lsn": 9}, {"lsn": 5}),
)


@pytest.mark.parametrize(("unknown", "known", "first", "second"), nightly_after(1, SHARED_FIELDS))
@pytest.mark.parametrize("dialect", nightly_after(1, [DebeziumDialect(), FlatDialect()]), ids=["envelope", "flat"])
def test_events_of_an_unknown_connector_are_ordered_by_offset(
    spark: SparkSession, dialect: Dialect, unknown: str, known: str, first: dict[str, Any], second: dict[str, Any]
) -> None:
    def sort_offsets(name: str) -> list[int]:
        values: list[dict[str, Any]] = []
        for fields in (first, second):
            block = source(name, **fields)
            flat = {"id": 1, "__op": "u", "__deleted": "false", **{f"__{field}": v for field, v in block.items()}}
            envelope = {"op": "u", "before": None, "after": {"id": 1}, "source": block}
            values.append(flat if isinstance(dialect, FlatDialect) else envelope)
        records = [record(value, key={"id": 1}, offset=at) for at, value in enumerate(values)]
        (changes,) = make_changes(spark, records, dialect=dialect).values()
        found = sorted(rows_of(changes, POSITION, OFFSET), key=lambda row: row[POSITION])
        return [row[OFFSET] for row in found]

    assert sort_offsets(unknown) == [0, 1]
    assert sort_offsets(known) == [1, 0]


def test_order_comes_from_the_matching_connector(plugins: PluginRegistry) -> None:
    def events(*fields: str) -> Events:
        block = T.StructType([T.StructField(name, T.StringType()) for name in fields])
        return Events(
            "shop.people", T.StructType([T.StructField("source", block)]), lambda session, _: session.range(0)
        )

    orders = {events("sequence", "scn"): Redwood.order, events("sequence", "lsn"): PostgreSqlConnector.order}
    for one, order in orders.items():
        assert DebeziumDialect().order(one) == order


def test_connector_without_unavailable_values_has_no_placeholder_tests(plugins: PluginRegistry) -> None:
    row = T.StructType([T.StructField("id", T.StringType())])
    # MySQL omits large values with `binlog_row_image=NOBLOB`.
    for fields, has_tests in ((["scn"], False), (["lsn"], True), (["file", "pos"], True)):
        block = T.StructType([T.StructField(name, T.StringType()) for name in fields])
        schema = T.StructType([T.StructField("after", row), T.StructField("source", block)])
        assert bool(DebeziumDialect().unavailable_tests(schema)) is has_tests


def test_events_of_two_databases_in_one_topic(spark: SparkSession, plugins: PluginRegistry) -> None:
    values = [*envelopes()][:1]
    values.append({**values[0], "source": source("postgresql", lsn=5)})
    with pytest.raises(DataError, match="ordered by PostgreSQL's LSNs and by Redwood's SCNs"):
        make_changes(spark, [record(value, key={"id": 1}, offset=at) for at, value in enumerate(values)])


def test_plan_contains_only_the_expressions_of_one_connector(spark: SparkSession, plugins: PluginRegistry) -> None:
    value = {"op": "c", "before": None, "after": {"id": 1}, "source": source("postgresql", lsn=5, snapshot="false")}
    records = [record(value, key={"id": 1})]
    plans = []
    for known in (plugins, PluginRegistry.from_entry_points()):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(log_positions, "get_registry", lambda known=known: known)
            (changes,) = make_changes(spark, records).values()
        plan = changes.frame.select(POSITION, SNAPSHOT)._jdf.queryExecution().optimizedPlan()
        plans.append(plan.numberedTreeString().partition("LocalRelation")[0].count("("))
    assert plans[0] == plans[1]


def test_only_third_party_connectors_are_parts(plugins: PluginRegistry) -> None:
    assert [type(part) for part in DebeziumDialect().parts()] == [Redwood]
    assert list(DebeziumDialect().warnings()) == []


def test_connector_that_cannot_be_built_is_a_warning(plugins: PluginRegistry) -> None:
    plugins.register(SimpleNamespace(headrace_connectors=hookimpl(lambda: {"raises": Raises})), "headrace-raises 1.0")
    (warning,) = DebeziumDialect().warnings()
    assert warning.startswith("the connector 'raises' of headrace-raises 1.0 cannot be built: ValueError: no license")


def test_broken_connector_is_a_warning(plugins: PluginRegistry) -> None:
    plugins.register(SimpleNamespace(headrace_connectors=hookimpl(lambda: {"broken": Outdated})), "headrace-broken 1.0")
    (warning,) = FlatDialect().warnings()
    assert warning.startswith("the connector 'broken' of headrace-broken 1.0 was written for plugin API 99")
    assert warning.endswith("; a topic that only its connector can order is ordered by the record's offset")


def test_distribution_that_cannot_be_loaded_is_a_warning(plugins: PluginRegistry) -> None:
    plugins.broken.append(Broken("oracle", "headrace-oracle 1.0", ImportError("no driver")))
    (warning,) = DebeziumDialect().warnings()
    assert warning.startswith("headrace-oracle 1.0 cannot be loaded: ImportError: no driver; a topic that only its")


class TestRedwood(ConnectorConformance):
    plugin_class = Redwood
    schema = "connector string, sequence string, scn string, commit_scn string"
    history = ({"scn": "50"}, *(fields for _, fields in CHANGES))


class TestPostgreSql(ConnectorConformance):
    plugin_class = PostgreSqlConnector
    schema = "connector string, sequence string, lsn bigint"
    history = (
        {"sequence": '[null,"900"]', "lsn": 900},
        {"sequence": '["1000","1400"]', "lsn": 1400},
        {"sequence": '["1500","1200"]', "lsn": 1200},
    )


class TestMySql(ConnectorConformance):
    plugin_class = MySqlConnector
    schema = "connector string, sequence string, file string, pos bigint, row int"
    history = (
        {"file": "binlog.000009", "pos": 4, "row": 0},
        {"file": "binlog.000010", "pos": 4, "row": 10},
        {"file": "binlog.000010", "pos": 90, "row": 0},
    )

    def test_positions_are_comparable_with_stored_ones(self, bench: ConnectorBench) -> None:
        assert bench.positions(self.history) == ["0191410", "01A1410", "01A25A10"]

    def test_unusable_position_of_a_snapshot_row_is_the_lowest(self, bench: ConnectorBench) -> None:
        """Rows of an incremental snapshot have the position of the connector, which may be negative."""
        assert bench.positions([{"file": "binlog.000010", "pos": -80, "row": 0}]) == ["01A010"]


class TestMariaDb(TestMySql):
    plugin_class = MariaDbConnector


class TestSqlServer(ConnectorConformance):
    plugin_class = SqlServerConnector
    schema = "connector string, sequence string, commit_lsn string, change_lsn string, event_serial_no bigint"
    history = (
        {"commit_lsn": "00000025:00000d58:0003"},
        {"commit_lsn": "00000025:00000d58:0003", "change_lsn": "00000025:00000158:0010", "event_serial_no": 1},
        {"commit_lsn": "00000025:00000d58:0003", "change_lsn": "00000025:00000158:0010", "event_serial_no": 2},
    )
