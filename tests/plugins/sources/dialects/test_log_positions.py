"""Choice of the connector that orders a topic, by the names of the fields in source blocks."""

from __future__ import annotations

import pytest

from headrace_sources.connectors.mysql import MySqlConnector
from headrace_sources.connectors.postgresql import PostgreSqlConnector
from headrace_sources.connectors.sqlserver import SqlServerConnector
from headrace_sources.dialects.log_positions import find_connector, name_order

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


@pytest.mark.parametrize("name", _FOREIGN)
def test_connectors_with_equal_field_names_are_ordered_by_offset(name: str) -> None:
    assert name_order(_COMMON | _FOREIGN[name]) == "the record's offset"


@pytest.mark.parametrize(
    ("fields", "connector"),
    [
        (_MYSQL, MySqlConnector),
        ({"schema", "table", "txId", "lsn", "xmin"}, PostgreSqlConnector),
        ({"schema", "table", "change_lsn", "commit_lsn", "event_serial_no"}, SqlServerConnector),
    ],
)
def test_built_in_connectors_match_their_source_blocks(fields: set[str], connector: type) -> None:
    assert isinstance(find_connector(_COMMON | fields), connector)


@pytest.mark.parametrize(
    ("fields", "connector"),
    [({"file", "pos"}, MySqlConnector), ({"sequence"}, PostgreSqlConnector), ({"commit_lsn"}, SqlServerConnector)],
)
def test_built_in_connectors_match_the_fields_of_flat_rows(fields: set[str], connector: type) -> None:
    assert isinstance(find_connector(fields), connector)
