"""Errors of Kafka's producer, as errors with a fix."""

from __future__ import annotations

from headrace.sdk import ConfigError, DataError, HeadraceError
from headrace.sdk.error_text import KnownError, explain_known_error, full_text
from headrace_kafka.kafka_errors import explain_kafka_error

#: Classes in the trace of an error of the source's consumers, which a write reads from.
_READS = ("KafkaDataConsumer", "KafkaBatchPartitionReader")
_KNOWN_ERRORS = (
    KnownError(
        r"(The message is \d+ bytes when serialized which is larger than \d+, which is the value of the \S+ configuration)",
        DataError,
        "a record is too large: {detail}",
        "set `kafka.max.request.size` to more bytes, and `max.message.bytes` of the topic; or remove a large column with `drop`",
    ),
    KnownError(
        r"larger than the total memory buffer you have configured with the buffer.memory configuration",
        DataError,
        "a record is larger than `kafka.buffer.memory`",
        "set `kafka.buffer.memory` to more bytes, or remove a large column with `drop`",
    ),
    # The values of options for the login are not shown.
    KnownError(
        r"ConfigException: (Invalid value \S* ?for configuration (?!sasl|ssl|bootstrap)[^\n]+"
        r"|Must set [a-z.]+ to [^\n]+|[a-z.]+ should be equal to or larger than [^\n]+)",
        ConfigError,
        "the producer rejects an option of the sink: {detail}",
        "correct the option, with the prefix `kafka.`",
    ),
    KnownError(
        r"larger than the max message size the server will accept|RecordTooLargeException",
        DataError,
        "a record is larger than `max.message.bytes` of the topic",
        "set `max.message.bytes` of the topic to more bytes, or remove a large column with `drop`",
    ),
    KnownError(
        r"[Cc]ompacted topic cannot accept message without key|InvalidRecordException",
        DataError,
        "the topic rejects a record, as compacted topics reject records without a key",
        "name the key columns: `tables: - {{source: …, key: [id]}}`; or set `cleanup.policy` of the topic to `delete`",
    ),
)


def explain_write_error(error: BaseException) -> HeadraceError | None:
    """Return the error for a failure of the sink's brokers; None for others, such as a failure of the source's brokers."""
    text = full_text(error)
    if "kafka" not in text.lower() or any(name in text for name in _READS):
        return None
    return explain_known_error(error, _KNOWN_ERRORS) or explain_kafka_error(error, None, rights="Write and Describe")
