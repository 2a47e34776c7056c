"""Built-in sinks."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from headrace.sdk import hookimpl

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


# Classes are imported on first use: a list of plugins needs none of them. There is no __dir__, as the search for hooks would
# import every name in it.
def __getattr__(name: str) -> Any:
    for path in _CLASSES.values():
        module, _, attribute = path.partition(":")
        if attribute == name:
            return getattr(import_module(module), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
