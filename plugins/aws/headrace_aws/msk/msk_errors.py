"""Translation of errors of the MSK client, its credentials and the brokers."""

from __future__ import annotations

from headrace.sdk import ConfigError, HeadraceError, LoginError, RetriableError
from headrace.sdk.error_text import KnownError, explain_known_error, full_text
from headrace_aws.clients import CREDENTIAL_SOURCES
from headrace_aws.identity import FIX_TRUST

_CLIENT = "software.amazon.msk.auth.iam"


def explain_login(error: BaseException, who: str | None, where: str) -> HeadraceError | None:
    """Translate an error of authentication or authorization; None for other errors. ``who``: the profile or role."""
    text = full_text(error)
    if "kafka" not in text.lower() and _CLIENT not in text:
        return None
    known = (KnownError(*entry) for entry in _KNOWN_ERRORS)
    places = CREDENTIAL_SOURCES.format(profile="default")
    return explain_known_error(error, known, where=where, who=who or "this process", places=places)


_BUSY_STS = (
    r"(Throttling(?:Exception)?: [^\n]*|Rate exceeded|RequestLimitExceeded|IDPCommunicationError"
    r"|\(Service: (?:AWSSecurityToken|Sts)\w*[;,] Status Code: (?:429|5\d\d))"
)
_KNOWN_ERRORS: tuple[tuple[str, type[HeadraceError], str, str], ...] = (
    (
        rf"{_CLIENT}\.\w+ could not be found|ClassNotFoundException: {_CLIENT}|No LoginModule found for {_CLIENT}\S*",
        ConfigError,
        "the jar of the MSK client is missing: {detail}",
        "add software.amazon.msk:aws-msk-iam-auth with the classifier `all` to the session's jars; sessions that headrace builds have it",
    ),
    (
        r"(User: \S+ is not authorized to perform: sts:AssumeRole[^(\n]*)",
        ConfigError,
        "{who} cannot be assumed: {detail}",
        FIX_TRUST,
    ),
    # STS, when the JVM assumes a role. The broker's client reports it as missing credentials.
    (
        _BUSY_STS,
        RetriableError,
        "AWS did not return credentials for {who}: {detail}",
        "the batch is retried; nothing is lost",
    ),
    (
        r"(ExpiredToken\w*|The security token included in the request is expired)",
        ConfigError,
        "the session token has expired: {detail}",
        "log in again, or use a role, whose credentials are renewed",
    ),
    (
        r"((?:Unable to load region|AWS region could not be resolved)[^.\n]*)",
        ConfigError,
        "the JVM has no region: {detail}",
        "set AWS_REGION for the driver and the executors; sessions that headrace builds have it",
    ),
    (
        r"Failed to find AWS IAM Credentials|Unable to load credentials from any|Profile file contained no credentials",
        ConfigError,
        "no AWS credentials found for {who}",
        "set a role, a profile or keys; the sources are {places}",
    ),
    # OAUTHBEARER. The cause is in the JVM's log only.
    (
        r"internal error occurred while retrieving token from callback handler",
        ConfigError,
        "the AWS client of the JVM cannot sign a token for {who}",
        "set AWS_REGION for the driver and the executors, which sessions that headrace builds have; for another cause, read the JVM's log",
    ),
    (
        r"Too many connects",
        RetriableError,
        "the broker received too many new connections",
        "the batch is retried; for fewer connections, read with fewer tasks",
    ),
    (
        r"(Session too short)",
        ConfigError,
        "the credentials are about to expire: {detail}",
        "log in again, or use a role, whose credentials are renewed",
    ),
    (
        r"(Cannot change principals during re-authentication[^\n]*)",
        RetriableError,
        "the identity of the credentials changed on an open connection: {detail}",
        "the batch is retried with a new connection; use credentials of one identity in the process",
    ),
    (
        r"Not authorized to access topics: \[([^\]\n]*)\]",
        ConfigError,
        "{who} has no permission to read topic {detail}",
        "allow kafka-cluster:DescribeTopic and kafka-cluster:ReadData on the topic",
    ),
    (
        r"TopicAuthorizationException",
        ConfigError,
        "{who} has no permission to read one of the topics",
        "allow kafka-cluster:DescribeTopic and kafka-cluster:ReadData on them",
    ),
    (
        r"Not authorized to access group: ([^\n]*)",
        ConfigError,
        "{who} has no permission to use group {detail}",
        "allow kafka-cluster:DescribeGroup and kafka-cluster:AlterGroup on the group",
    ),
    (
        r"ClusterAuthorizationException",
        ConfigError,
        "{who} has no permission to describe the cluster",
        "allow kafka-cluster:DescribeCluster on the cluster",
    ),
    (
        # AWS_MSK_IAM has the request ID before the message, OAUTHBEARER has JSON.
        r'SaslAuthenticationException: (?:\[[\w-]+\]: |\{"status":")?([^\n"]*)',
        LoginError,
        "the broker rejected the login of {who}: {detail}",
        "correct the key, the secret and the session token, which can have expired, or allow kafka-cluster:Connect on the cluster",
    ),
)
