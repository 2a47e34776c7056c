"""Built-in sinks."""

from typing import TYPE_CHECKING

from headrace.sdk import hookimpl
from headrace.sdk.exports import lazy_plugins

if TYPE_CHECKING:
    from headrace_sinks.console import ConsoleSink as ConsoleSink
    from headrace_sinks.files import FilesSink as FilesSink
    from headrace_sinks.hudi import HudiSink as HudiSink
    from headrace_sinks.iceberg import IcebergSink as IcebergSink
    from headrace_sinks.s3.s3_sink import S3Sink as S3Sink

#: Name of a sink in a pipeline file → module and class.
_CLASSES = {
    "iceberg": "headrace_sinks.iceberg:IcebergSink",
    "hudi": "headrace_sinks.hudi:HudiSink",
    "files": "headrace_sinks.files:FilesSink",
    "s3": "headrace_sinks.s3.s3_sink:S3Sink",
    "console": "headrace_sinks.console:ConsoleSink",
}


@hookimpl
def headrace_sinks() -> dict[str, str]:
    """Return the classes of the sinks by name."""
    return _CLASSES


__getattr__ = lazy_plugins(__name__, _CLASSES)
