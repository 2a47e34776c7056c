"""What Spark's Kafka source and Kafka's own clients say, as errors with a fix."""

from __future__ import annotations

from headrace.sdk import ConfigError, DataError, HeadraceError, LoginError, RetriableError
from headrace.sdk.error_text import KnownError, explain_known_error, full_text


def explain_kafka_error(error: BaseException, where: str) -> HeadraceError | None:
    """The error of a broker, or of what was read from it; None for any other: a sink's server refuses logins, too."""
    text = full_text(error)
    if "kafka" not in text.lower():
        return None
    known = (KnownError(pattern, kind, f"{what}: {{message}}", fix) for pattern, kind, what, fix in _KNOWN_ERRORS)
    return explain_known_error(error, known, where=where)


_DATA_LOSS: tuple[type[HeadraceError], str, str] = (
    DataError,
    "records are gone that were not read",
    "start with a new checkpoint, or set `failOnDataLoss: false` to go on with the oldest there are",
)
_KNOWN_ERRORS: tuple[tuple[str, type[HeadraceError], str, str], ...] = (
    (
        r"SaslAuthenticationException|Authentication failed|invalid credentials",
        LoginError,
        "the broker refused the login",
        "correct the user and password in `kafka.sasl.jaas.config`, or `kafka.sasl.mechanism`",
    ),
    (
        r"SslAuthenticationException|SSL handshake failed|SSLHandshakeException",
        ConfigError,
        "no TLS connection came about",
        "set `kafka.security.protocol` to what that port speaks, and a truststore that knows the broker's certificate",
    ),
    (
        r"TopicAuthorizationException|GroupAuthorizationException|ClusterAuthorizationException",
        ConfigError,
        "the broker does not allow it",
        "give this user Read and Describe on the topics",
    ),
    (
        r"UnknownTopicOrPartitionException|does not host this topic-partition",
        ConfigError,
        "a topic is not there",
        "correct the topic's name, or make it",
    ),
    (
        r"Partitions? \S+ have been deleted|\S+\) are gone\.|Some of partitions in Kafka topic\(s\) have been lost",
        DataError,
        "a topic was deleted, and with it what was not read of it",
        "if all of it was read, set `failOnDataLoss: false` to go on; else start with a new checkpoint",
    ),
    # Which records, where Spark says so; its sentence that some are gone may stand on a line without their place.
    (
        r"Partitions? \S+ offset was changed from|Added partition \S+ starts from|Could not read records in",
        *_DATA_LOSS,
    ),
    (
        r"OffsetOutOfRangeException|Some data may have been lost",
        *_DATA_LOSS,
    ),
    (
        r"No resolvable bootstrap urls",
        ConfigError,
        "the name of no broker is known",
        "correct `bootstrap.servers`",
    ),
    (
        r"TimeoutException|Failed to get offset|DisconnectException|BrokerNotAvailableException",
        RetriableError,
        "no broker answers as one",
        "look whether it runs, and whether that port speaks the `kafka.security.protocol` of the pipeline",
    ),
)
