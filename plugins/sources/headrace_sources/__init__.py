"""Built-in sources, formats and dialects."""

from headrace.sdk import hookimpl


@hookimpl
def headrace_sources() -> dict[str, str]:
    """Transports."""
    return {
        "files": "headrace_sources.transports.files:FilesSource",
        "kafka": "headrace_sources.transports.kafka:KafkaSource",
    }


@hookimpl
def headrace_formats() -> dict[str, str]:
    """Formats of files and of single records."""
    return {
        "avro": "headrace_sources.formats.avro:AvroFormat",
        "json": "headrace_sources.formats.json.format:JsonFormat",
        "protobuf": "headrace_sources.formats.protobuf:ProtobufFormat",
        "parquet": "headrace_sources.formats.parquet:ParquetFormat",
    }


@hookimpl
def headrace_dialects() -> dict[str, str]:
    """Shapes of events."""
    return {
        "debezium": "headrace_sources.dialects.debezium:DebeziumDialect",
        "flat": "headrace_sources.dialects.flat:FlatDialect",
    }
