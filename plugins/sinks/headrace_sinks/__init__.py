"""Built-in sinks, the catalogs of their tables, and sources of lake tables."""

from typing import TYPE_CHECKING

from headrace.sdk import hookimpl
from headrace.sdk.exports import lazy_plugins

if TYPE_CHECKING:
    from headrace_sinks.catalogs.glue.glue_catalog import GlueCatalog as GlueCatalog
    from headrace_sinks.catalogs.hive.hive_catalog import HiveCatalog as HiveCatalog
    from headrace_sinks.console import ConsoleSink as ConsoleSink
    from headrace_sinks.delta import DeltaSink as DeltaSink
    from headrace_sinks.delta.delta_source import DeltaSource as DeltaSource
    from headrace_sinks.files import FilesSink as FilesSink
    from headrace_sinks.hudi import HudiSink as HudiSink
    from headrace_sinks.hudi.hudi_source import HudiSource as HudiSource
    from headrace_sinks.iceberg import IcebergSink as IcebergSink
    from headrace_sinks.iceberg.iceberg_source import IcebergSource as IcebergSource
    from headrace_sinks.kafka import KafkaSink as KafkaSink
    from headrace_sinks.kinesis import KinesisSink as KinesisSink
    from headrace_sinks.lake_source.lake_dialect import LakeDialect as LakeDialect
    from headrace_sinks.s3.s3_sink import S3Sink as S3Sink

#: Name of a sink in a pipeline file → module and class.
_CLASSES = {
    "iceberg": "headrace_sinks.iceberg:IcebergSink",
    "hudi": "headrace_sinks.hudi:HudiSink",
    "delta": "headrace_sinks.delta:DeltaSink",
    "files": "headrace_sinks.files:FilesSink",
    "s3": "headrace_sinks.s3.s3_sink:S3Sink",
    "kafka": "headrace_sinks.kafka:KafkaSink",
    "kinesis": "headrace_sinks.kinesis:KinesisSink",
    "console": "headrace_sinks.console:ConsoleSink",
}
#: Name of a source of lake tables in a pipeline file → module and class.
_SOURCES = {
    "delta": "headrace_sinks.delta.delta_source:DeltaSource",
    "hudi": "headrace_sinks.hudi.hudi_source:HudiSource",
    "iceberg": "headrace_sinks.iceberg.iceberg_source:IcebergSource",
}
#: Name of the dialect of their rows → module and class.
_DIALECTS = {"lake": "headrace_sinks.lake_source.lake_dialect:LakeDialect"}
#: Name of a catalog under ``sync:`` → module and class.
_CATALOGS = {
    "glue": "headrace_sinks.catalogs.glue.glue_catalog:GlueCatalog",
    "hive": "headrace_sinks.catalogs.hive.hive_catalog:HiveCatalog",
}


@hookimpl
def headrace_sinks() -> dict[str, str]:
    """Return the classes of the sinks by name."""
    return _CLASSES


@hookimpl
def headrace_sources() -> dict[str, str]:
    """Return the classes of the sources by name: a lake table is read and written with the same options."""
    return _SOURCES


@hookimpl
def headrace_dialects() -> dict[str, str]:
    """Return the dialect of the rows of lake tables."""
    return _DIALECTS


@hookimpl
def headrace_catalogs() -> dict[str, str]:
    """Return the classes of the catalogs by name."""
    return _CATALOGS


__getattr__ = lazy_plugins(__name__, _CLASSES, _SOURCES, _DIALECTS, _CATALOGS)
