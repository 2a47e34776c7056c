"""What AWS's client for MSK, its credentials and MSK's brokers say, as errors with a fix."""

from __future__ import annotations

from headrace.sdk import ConfigError, HeadraceError, LoginError, RetriableError
from headrace.sdk.error_text import KnownError, explain_known_error, full_text
from headrace_aws.clients import PLACES
from headrace_aws.identity import FIX_TRUST

_CLIENT = "software.amazon.msk.auth.iam"


def explain_login(error: BaseException, who: str | None, where: str) -> HeadraceError | None:
    """An error of the login, or of what the login may do; None for any other. ``who``: the profile or role of the block."""
    text = full_text(error)
    if "kafka" not in text.lower() and _CLIENT not in text:
        return None
    known = (KnownError(*entry) for entry in _KNOWN_ERRORS)
    places = PLACES.format(profile="default")
    return explain_known_error(error, known, where=where, who=who or "this process", places=places)


_KNOWN_ERRORS: tuple[tuple[str, type[HeadraceError], str, str], ...] = (
    (
        rf"{_CLIENT}\.\w+ could not be found|ClassNotFoundException: {_CLIENT}|No LoginModule found for {_CLIENT}\S*",
        ConfigError,
        "the jar of AWS's client is not there: {detail}",
        "add software.amazon.msk:aws-msk-iam-auth with the classifier `all` to the session's jars; a session that headrace builds has it",
    ),
    (
        r"(User: \S+ is not authorized to perform: sts:AssumeRole[^(\n]*)",
        LoginError,
        "{who} cannot be assumed: {detail}",
        FIX_TRUST,
    ),
    (
        r"(ExpiredToken\w*|The security token included in the request is expired)",
        ConfigError,
        "the session token has expired: {detail}",
        "log in again, or give it a role, whose credentials are renewed",
    ),
    (
        r"((?:Unable to load region|AWS region could not be resolved)[^.\n]*)",
        ConfigError,
        "the JVM knows no region: {detail}",
        "set AWS_REGION for driver and executors; a session that headrace builds is told",
    ),
    (
        r"Failed to find AWS IAM Credentials|Unable to load credentials from any|Profile file contained no credentials",
        ConfigError,
        "there are no credentials for {who}",
        "give it a role, a profile or keys; it looked at {places}",
    ),
    (
        r"Too many connects",
        RetriableError,
        "the broker has too many new connections",
        "it is tried again; for fewer connections, read with fewer tasks",
    ),
    (
        r"(Session too short)",
        ConfigError,
        "the credentials are about to expire: {detail}",
        "log in again, or give it a role, whose credentials are renewed",
    ),
    (
        r"(Cannot change principals during re-authentication[^\n]*)",
        RetriableError,
        "the credentials became another identity's on an open connection: {detail}",
        "it is tried again with a new one; let all credentials of the process be of one identity",
    ),
    (
        r"Not authorized to access topics: \[([^\]\n]*)\]",
        ConfigError,
        "{who} may not read topic {detail}",
        "allow kafka-cluster:DescribeTopic and kafka-cluster:ReadData on the topic",
    ),
    (
        r"TopicAuthorizationException",
        ConfigError,
        "{who} may not read one of the topics",
        "allow kafka-cluster:DescribeTopic and kafka-cluster:ReadData on them",
    ),
    (
        r"Not authorized to access group: ([^\n]*)",
        ConfigError,
        "{who} may not use group {detail}",
        "allow kafka-cluster:DescribeGroup and kafka-cluster:AlterGroup on the group",
    ),
    (
        r"ClusterAuthorizationException",
        ConfigError,
        "{who} may not describe the cluster",
        "allow kafka-cluster:DescribeCluster on the cluster",
    ),
    (
        # By AWS_MSK_IAM with the id of a request before it, by OAUTHBEARER as JSON.
        r'SaslAuthenticationException: (?:\[[\w-]+\]: |\{"status":")?([^\n"]*)',
        LoginError,
        "the broker lets {who} not in: {detail}",
        "correct key, secret and session token, which may have expired, or allow kafka-cluster:Connect on the cluster",
    ),
)
