"""Built-in sources, formats and dialects: ``from headrace_sources import KafkaSource, AvroFormat``."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from headrace.sdk import hookimpl

if TYPE_CHECKING:
    from headrace_sources.connectors.mysql import MariaDbConnector as MariaDbConnector, MySqlConnector as MySqlConnector
    from headrace_sources.connectors.postgresql import PostgreSqlConnector as PostgreSqlConnector
    from headrace_sources.connectors.sqlserver import SqlServerConnector as SqlServerConnector
    from headrace_sources.dialects.debezium import DebeziumDialect as DebeziumDialect
    from headrace_sources.dialects.dms import DmsDialect as DmsDialect
    from headrace_sources.dialects.flat import FlatDialect as FlatDialect
    from headrace_sources.formats.avro import AvroFormat as AvroFormat
    from headrace_sources.formats.json.json_format import JsonFormat as JsonFormat
    from headrace_sources.formats.parquet import ParquetFormat as ParquetFormat
    from headrace_sources.formats.protobuf import ProtobufFormat as ProtobufFormat
    from headrace_sources.kinesis.kinesis_source import KinesisSource as KinesisSource
    from headrace_sources.transports.files import FilesSource as FilesSource
    from headrace_sources.transports.kafka import KafkaSource as KafkaSource

_SOURCES = {
    "files": "headrace_sources.transports.files:FilesSource",
    "kafka": "headrace_sources.transports.kafka:KafkaSource",
    "kinesis": "headrace_sources.kinesis.kinesis_source:KinesisSource",
}
_FORMATS = {
    "avro": "headrace_sources.formats.avro:AvroFormat",
    "json": "headrace_sources.formats.json.json_format:JsonFormat",
    "protobuf": "headrace_sources.formats.protobuf:ProtobufFormat",
    "parquet": "headrace_sources.formats.parquet:ParquetFormat",
}
_DIALECTS = {
    "debezium": "headrace_sources.dialects.debezium:DebeziumDialect",
    "dms": "headrace_sources.dialects.dms:DmsDialect",
    "flat": "headrace_sources.dialects.flat:FlatDialect",
}
_CONNECTORS = {
    "mariadb": "headrace_sources.connectors.mysql:MariaDbConnector",
    "mysql": "headrace_sources.connectors.mysql:MySqlConnector",
    "postgresql": "headrace_sources.connectors.postgresql:PostgreSqlConnector",
    "sqlserver": "headrace_sources.connectors.sqlserver:SqlServerConnector",
}
#: Class → its module. Imported on first use: a plugin that a pipeline does not name costs nothing. For the same reason
#: there is no `__dir__`, which is where pluggy looks for hooks: it would import them all.
_MODULES = {
    class_name: module
    for paths in (_SOURCES, _FORMATS, _DIALECTS, _CONNECTORS)
    for module, _, class_name in (path.partition(":") for path in paths.values())
}


@hookimpl
def headrace_sources() -> dict[str, str]:
    """Transports."""
    return _SOURCES


@hookimpl
def headrace_formats() -> dict[str, str]:
    """Formats of files and of single records."""
    return _FORMATS


@hookimpl
def headrace_dialects() -> dict[str, str]:
    """Shapes of events."""
    return _DIALECTS


@hookimpl
def headrace_connectors() -> dict[str, str]:
    """Return the orders of Debezium's connectors."""
    return _CONNECTORS


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(import_module(_MODULES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
