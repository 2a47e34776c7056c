"""Choice of the connector that orders a topic, by the names of the fields in source blocks."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.records import make_topic_readers, record
from tests.support.tiers import nightly_after

from headrace.engine.read.record_decoder import RecordDecoder
from headrace.sdk import Connector
from headrace.sdk.changes import ERROR, POSITION
from headrace.sdk.dialect import Dialect
from headrace.sdk.format import UnknownSchemaError
from headrace.sdk.positions import OFFSET_ORDER
from headrace.sdk.schema_log import SchemaLog, Subject
from headrace.sdk.source import SourceContext
from headrace_sources.connectors.mysql import MySqlConnector
from headrace_sources.connectors.postgresql import PostgreSqlConnector
from headrace_sources.connectors.sqlserver import SqlServerConnector
from headrace_sources.dialects.debezium import DebeziumDialect
from headrace_sources.dialects.dms import DmsDialect
from headrace_sources.dialects.flat import FlatDialect
from headrace_sources.dialects.log_positions import find_connector, list_own_orders, name_order
from headrace_sources.formats.json.json_format import JsonFormat

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Fields of the source blocks of all connectors.
_COMMON = {"version", "connector", "name", "ts_ms", "ts_us", "ts_ns", "snapshot", "db", "sequence"}
_MYSQL = {"table", "server_id", "gtid", "file", "pos", "row", "thread", "query"}

#: Source blocks of connectors whose order headrace does not implement.
_FOREIGN = {
    "cassandra": {"cluster", "keyspace_name", "table_name", "file", "pos"},
    "TiCDC": _MYSQL | {"commit_ts", "cluster_id"},
    "informix": {"schema", "table", "commit_lsn", "change_lsn", "txId", "begin_lsn"},
    "oracle": {"schema", "table", "txId", "scn", "commit_scn", "rs_id", "ssn", "redo_thread", "row_id"},
    "vitess": {"keyspace", "table", "shard", "vgtid"},
    "mongodb": {"collection", "ord", "lsid", "txnNumber", "wallTime"},
    "spanner": {"table", "change_stream_name", "low_watermark", "read_at_timestamp", "server_transaction_id"},
    "yugabytedb": {"schema", "table", "txId", "lsn", "xmin", "tablet_id"},
}


def test_source_blocks_of_two_databases_have_two_orders() -> None:
    postgresql, sqlserver = {"lsn", "commit_lsn"}, {"commit_lsn", "change_lsn"}
    assert list_own_orders(postgresql | sqlserver) == [PostgreSqlConnector.order, SqlServerConnector.order]


@pytest.mark.parametrize("name", _FOREIGN)
def test_connectors_with_equal_field_names_are_ordered_by_offset(name: str) -> None:
    assert name_order(_COMMON | _FOREIGN[name]) == "the record's offset"


@pytest.mark.parametrize(
    ("fields", "connector"),
    [
        (_MYSQL, MySqlConnector),
        ({"schema", "table", "txId", "lsn", "xmin"}, PostgreSqlConnector),
        ({"schema", "table", "txId", "lsn", "xmin", "commit_lsn"}, PostgreSqlConnector),
        ({"schema", "table", "change_lsn", "commit_lsn", "event_serial_no"}, SqlServerConnector),
    ],
)
def test_built_in_connectors_match_their_source_blocks(fields: set[str], connector: type[Connector]) -> None:
    assert isinstance(find_connector(_COMMON | fields), connector)
    assert list_own_orders(_COMMON | fields) == [connector.order]


@pytest.mark.parametrize(
    ("fields", "connector"),
    [
        ({"file", "pos"}, MySqlConnector),
        ({"sequence"}, PostgreSqlConnector),
        ({"lsn", "commit_lsn"}, PostgreSqlConnector),
        ({"commit_lsn"}, SqlServerConnector),
        ({"commit_lsn", "sequence"}, SqlServerConnector),
    ],
)
def test_built_in_connectors_match_the_fields_of_flat_rows(fields: set[str], connector: type) -> None:
    assert isinstance(find_connector(fields), connector)


def envelope(connector: str, **source: Any) -> dict[str, Any]:
    return {"after": {"id": 1}, "op": "u", "source": {"connector": connector, **source}}


def binlog(pos: int, file: str = "bin.000009") -> dict[str, Any]:
    return envelope("mariadb", file=file, pos=pos, row=0)


def dms(**metadata: Any) -> dict[str, Any]:
    return {"data": {"id": 1}, "metadata": {"record-type": "data", "operation": "update", **metadata}}


@pytest.mark.spark
@pytest.mark.parametrize(
    ("dialect", "value", "gap"),
    nightly_after(
        5,
        [
            pytest.param(FlatDialect(), {"id": 1, "__lsn": 5000}, {"id": 1}, id="lsn"),
            pytest.param(DebeziumDialect(), binlog(900), binlog(-80), id="negative pos"),
            pytest.param(DebeziumDialect(), envelope("postgresql", lsn=5000), envelope("postgresql"), id="envelope"),
            pytest.param(
                DebeziumDialect(),
                envelope("sqlserver", commit_lsn="1", change_lsn="1"),
                envelope("sqlserver"),
                id="sqlserver",
            ),
            pytest.param(DmsDialect(), dms(timestamp="2026-11-24T08:12:00Z"), dms(), id="dms"),
            pytest.param(FlatDialect(), {"id": 1, "__file": "b.1", "__pos": 4}, {"id": 1, "__file": "b.1"}, id="pos"),
            pytest.param(
                FlatDialect(),
                {"id": 1, "__file": "bin.000009", "__pos": 900},
                {"id": 1, "__file": "bin.000009", "__pos": -300},
                id="negative flat pos",
            ),
            pytest.param(DebeziumDialect(), binlog(900), binlog(900, "binlog-000012.ibb"), id="file without a number"),
            pytest.param(
                FlatDialect(),
                {"id": 1, "__source_sequence": '["9","9"]'},
                {"id": 1, "__source_sequence": "[null,null]"},
                id="sequence",
            ),
            pytest.param(
                DebeziumDialect(),
                envelope("sqlserver", commit_lsn="1", change_lsn="1"),
                {**envelope("db2", commit_lsn="1", change_lsn="1"), "op": "r"},
                id="db2 snapshot",
            ),
            pytest.param(
                FlatDialect(),
                {"id": 1, "__lsn": 5, "__connector": "postgresql"},
                {"id": 1, "__lsn": 5, "__connector": "x"},
                id="foreign flat",
            ),
        ],
    ),
)
def test_record_without_a_position_makes_the_offset_the_order(
    spark: SparkSession, dialect: Dialect, value: dict[str, Any], gap: dict[str, Any]
) -> None:
    """Such a record would otherwise be older than all others of its row, forever."""
    readers = make_topic_readers(spark, [record(v, topic="t", offset=i) for i, v in enumerate([value, gap])])
    [events] = RecordDecoder(JsonFormat(), None).decode(SourceContext(spark, SchemaLog()), readers)
    schema = dialect.read_schema(events.schema, key=["id"], with_row_before=True)
    with pytest.raises(Exception) as raised:  # noqa: PT011 - any exception of Spark
        dialect.changes(events, events.load(spark, schema), ["id"]).frame.select(ERROR).collect()
    error = dialect.explain(raised.value)
    assert isinstance(error, UnknownSchemaError)
    assert error.schemas == ((Subject("t", "position"), ""),)
    assert dialect.order(events) != OFFSET_ORDER
    events = replace(events, by_offset=True)
    assert dialect.order(events) == OFFSET_ORDER
    rows = dialect.changes(events, events.load(spark, schema), ["id"]).frame.select(POSITION, ERROR).collect()
    assert [(row[POSITION], row[ERROR]) for row in rows] == [("01010", None), ("01110", None)]
