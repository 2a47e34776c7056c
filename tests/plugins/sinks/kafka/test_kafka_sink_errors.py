"""Errors of Kafka's producer, with the texts of its exceptions; test_kafka_sink.py has those of a broker."""

from __future__ import annotations

import pytest

from headrace import ConfigError, DataError, HeadraceError, RetriableError
from headrace_sinks.kafka.kafka_sink_errors import explain_write_error

ERRORS = "org.apache.kafka.common.errors"
BUFFER = (
    "The message is 88 bytes when serialized which is larger than the total memory buffer you have configured with the buffer.memory "
    "configuration."
)
CONFIG = "org.apache.kafka.common.config.ConfigException"
LARGE = "The message is 2000088 bytes when serialized which is larger than 1048576, which is the value of the max.request.size"


@pytest.mark.parametrize(
    ("text", "kind", "what", "fix"),
    [
        (
            f"{ERRORS}.RecordTooLargeException: {LARGE} configuration.",
            DataError,
            f"a record is too large: {LARGE} configuration",
            "`kafka.max.request.size`",
        ),
        (
            f"{ERRORS}.RecordTooLargeException: The request included a message larger than the max message size the server will accept.",
            DataError,
            "a record is larger than `max.message.bytes` of the topic",
            "`max.message.bytes` of the topic",
        ),
        (
            f"{ERRORS}.RecordTooLargeException: {BUFFER}",
            DataError,
            "a record is larger than `kafka.buffer.memory`",
            "set `kafka.buffer.memory` to more bytes",
        ),
        (
            f"{CONFIG}: Invalid value zip for configuration compression.type: String must be one of: none, gzip, snappy, lz4, zstd",
            ConfigError,
            "Invalid value zip for configuration compression.type: String must be one of: none",
            "prefix `kafka.`",
        ),
        (
            f"{CONFIG}: Must set retries to non-zero when using the idempotent producer.",
            ConfigError,
            "Must set retries to non-zero",
            "prefix `kafka.`",
        ),
        (
            f"{CONFIG}: delivery.timeout.ms should be equal to or larger than linger.ms + request.timeout.ms",
            ConfigError,
            "delivery.timeout.ms should be equal to or larger than linger.ms + request.timeout.ms",
            "prefix `kafka.`",
        ),
        (
            f"{ERRORS}.InvalidRecordException: Compacted topic cannot accept message without key in topic partition orders-0.",
            DataError,
            "compacted topics reject records without a key",
            "{source: …, key: [id]}",
        ),
        (
            f"{ERRORS}.TopicAuthorizationException: Not authorized to access topics: [orders]",
            ConfigError,
            "permission denied",
            "grant this user Write and Describe on the topics",
        ),
        (f"{ERRORS}.TimeoutException: Expiring 1 record(s) for orders-0", RetriableError, "no broker responds", ""),
    ],
)
def test_error_of_the_producer_has_a_fix(text: str, kind: type[HeadraceError], what: str, fix: str) -> None:
    found = explain_write_error(RuntimeError(f"Job aborted.\nCaused by: {text}"))
    assert type(found) is kind
    assert what in found.what
    assert fix in str(found.fix)


def test_error_of_the_source_is_left_to_the_source() -> None:
    read = f"{ERRORS}.TimeoutException: Timeout\n\tat org.apache.spark.sql.kafka010.consumer.KafkaDataConsumer.get"
    assert explain_write_error(RuntimeError(read)) is None
    assert explain_write_error(RuntimeError("Connection refused: warehouse")) is None
