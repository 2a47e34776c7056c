"""Built-in sources, formats and dialects."""

from headrace.hookspecs import hookimpl


@hookimpl
def headrace_sources() -> dict[str, str]:
    """Transports."""
    return {
        "files": "headrace_sources.files:FilesSource",
        "kafka": "headrace_sources.kafka:KafkaSource",
    }


@hookimpl
def headrace_formats() -> dict[str, str]:
    """Formats of files and of single records."""
    return {
        "avro": "headrace_sources.avro:AvroFormat",
        "json": "headrace_sources.json:JsonFormat",
        "protobuf": "headrace_sources.protobuf:ProtobufFormat",
        "parquet": "headrace_sources.parquet:ParquetFormat",
    }


@hookimpl
def headrace_dialects() -> dict[str, str]:
    """Shapes of events."""
    return {
        "debezium": "headrace_sources.debezium:DebeziumDialect",
        "flat": "headrace_sources.flat:FlatDialect",
    }
