"""Errors of Spark's Kafka source and sink and of Kafka's clients, as errors with a fix."""

from __future__ import annotations

from headrace.sdk import ConfigError, DataError, HeadraceError, LoginError, RetriableError
from headrace.sdk.error_text import KnownError, explain_known_error, full_text

#: Start of the error for a missing topic.
NO_SUCH_TOPIC = "no such topic"


def explain_kafka_error(
    error: BaseException, where: str | None, *, rights: str = "Read and Describe"
) -> HeadraceError | None:
    """Return the error for a failure of a broker or of reading from it; None for others, such as a sink's server.

    ``rights``: the rights that the client needs on its topics.
    """
    text = full_text(error)
    if "kafka" not in text.lower():
        return None
    known = (KnownError(pattern, kind, f"{what}: {{message}}", fix) for pattern, kind, what, fix in _KNOWN_ERRORS)
    return explain_known_error(error, known, where=where, rights=rights)


_DATA_LOSS: tuple[type[HeadraceError], str, str] = (
    DataError,
    "records were deleted before they were read",
    "start with a new checkpoint, or set `failOnDataLoss: false` to continue with the oldest available records",
)
_KNOWN_ERRORS: tuple[tuple[str, type[HeadraceError], str, str], ...] = (
    (
        r"IllegalSaslStateException|Unexpected handshake request with client mechanism",
        ConfigError,
        "the listener does not use SASL",
        "name the port of a SASL listener in `bootstrap.servers`, or remove SASL from `kafka.security.protocol`",
    ),
    (
        r"UnsupportedSaslMechanismException|Client SASL mechanism '\S+' not enabled",
        ConfigError,
        "the listener does not use this SASL mechanism",
        "set `kafka.sasl.mechanism` to one that the listener has enabled",
    ),
    (
        r"SaslAuthenticationException|Authentication failed|invalid credentials",
        LoginError,
        "authentication failed",
        "correct the user and password in `kafka.sasl.jaas.config`, or `kafka.sasl.mechanism`",
    ),
    (
        r"SslAuthenticationException|SSL handshake failed|SSLHandshakeException",
        ConfigError,
        "TLS handshake failed",
        "set `kafka.security.protocol` to the port's protocol, and a truststore with the broker's certificate",
    ),
    (
        r"UnknownMemberIdException",
        ConfigError,
        "the consumer group has members",
        "name a group in `commit.group` that no consumer uses",
    ),
    (
        r"GroupAuthorizationException",
        ConfigError,
        "permission denied for a consumer group",
        "grant this user Read on the group",
    ),
    (
        r"TopicAuthorizationException|ClusterAuthorizationException",
        ConfigError,
        "permission denied",
        "grant this user {rights} on the topics",
    ),
    (
        r"UnknownTopicOrPartitionException|does not host this topic-partition",
        ConfigError,
        NO_SUCH_TOPIC,
        "correct the topic's name, or create it",
    ),
    (
        r"Partitions? \S+ have been deleted|\S+\) are gone\.|Some of partitions in Kafka topic\(s\) have been lost",
        DataError,
        "a topic was deleted",
        "if all its records were read, set `failOnDataLoss: false` to continue; otherwise start with a new checkpoint",
    ),
    # These lines contain the offsets. Spark's general message about lost data may not.
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
        RetriableError,
        "no broker's name can be resolved",
        "correct `bootstrap.servers`, or check the name server",
    ),
    (
        r"TimeoutException|Failed to get offset|DisconnectException|BrokerNotAvailableException",
        RetriableError,
        "no broker responds",
        "check that it is running, and that the port uses the pipeline's `kafka.security.protocol`",
    ),
)
