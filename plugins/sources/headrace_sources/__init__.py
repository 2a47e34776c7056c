"""Built-in sources, formats, dialects and connectors: ``from headrace_sources import KafkaSource, AvroFormat``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.sdk import hookimpl
from headrace.sdk.exports import lazy_plugins

if TYPE_CHECKING:
    from headrace_sources.connectors.mysql import MariaDbConnector as MariaDbConnector, MySqlConnector as MySqlConnector
    from headrace_sources.connectors.postgresql import PostgreSqlConnector as PostgreSqlConnector
    from headrace_sources.connectors.sqlserver import SqlServerConnector as SqlServerConnector
    from headrace_sources.dialects.debezium import DebeziumDialect as DebeziumDialect
    from headrace_sources.dialects.dms import DmsDialect as DmsDialect
    from headrace_sources.dialects.flat import FlatDialect as FlatDialect
    from headrace_sources.dialects.jdbc import JdbcDialect as JdbcDialect
    from headrace_sources.formats.avro import AvroFormat as AvroFormat
    from headrace_sources.formats.csv.csv_format import CsvFormat as CsvFormat
    from headrace_sources.formats.json.json_format import JsonFormat as JsonFormat
    from headrace_sources.formats.parquet import ParquetFormat as ParquetFormat
    from headrace_sources.jdbc.jdbc_source import JdbcSource as JdbcSource
    from headrace_sources.kinesis.kinesis_source import KinesisSource as KinesisSource
    from headrace_sources.transports.files import FilesSource as FilesSource
    from headrace_sources.transports.kafka import KafkaSource as KafkaSource

_SOURCES = {
    "files": "headrace_sources.transports.files:FilesSource",
    "jdbc": "headrace_sources.jdbc.jdbc_source:JdbcSource",
    "kafka": "headrace_sources.transports.kafka:KafkaSource",
    "kinesis": "headrace_sources.kinesis.kinesis_source:KinesisSource",
}
_FORMATS = {
    "avro": "headrace_sources.formats.avro:AvroFormat",
    "csv": "headrace_sources.formats.csv.csv_format:CsvFormat",
    "json": "headrace_sources.formats.json.json_format:JsonFormat",
    "parquet": "headrace_sources.formats.parquet:ParquetFormat",
}
_DIALECTS = {
    "debezium": "headrace_sources.dialects.debezium:DebeziumDialect",
    "dms": "headrace_sources.dialects.dms:DmsDialect",
    "flat": "headrace_sources.dialects.flat:FlatDialect",
    "jdbc": "headrace_sources.dialects.jdbc:JdbcDialect",
}
_CONNECTORS = {
    "mariadb": "headrace_sources.connectors.mysql:MariaDbConnector",
    "mysql": "headrace_sources.connectors.mysql:MySqlConnector",
    "postgresql": "headrace_sources.connectors.postgresql:PostgreSqlConnector",
    "sqlserver": "headrace_sources.connectors.sqlserver:SqlServerConnector",
}


@hookimpl
def headrace_sources() -> dict[str, str]:
    """Return the transports."""
    return _SOURCES


@hookimpl
def headrace_formats() -> dict[str, str]:
    """Return the formats of files and of single records."""
    return _FORMATS


@hookimpl
def headrace_dialects() -> dict[str, str]:
    """Return the shapes of events."""
    return _DIALECTS


@hookimpl
def headrace_connectors() -> dict[str, str]:
    """Return the orders of Debezium's connectors."""
    return _CONNECTORS


__getattr__ = lazy_plugins(__name__, _SOURCES, _FORMATS, _DIALECTS, _CONNECTORS)
