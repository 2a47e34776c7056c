"""Built-in sinks."""

from headrace.sdk import hookimpl


@hookimpl
def headrace_sinks() -> dict[str, str]:
    """The sinks by the names that users write."""
    return {
        "iceberg": "headrace_sinks.iceberg:IcebergSink",
        "hudi": "headrace_sinks.hudi:HudiSink",
        "files": "headrace_sinks.files:FilesSink",
        "console": "headrace_sinks.console:ConsoleSink",
    }
