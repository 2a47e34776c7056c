"""Errors of Iceberg's REST client, with the texts of its exceptions, and the errors that headrace reports."""

from __future__ import annotations

import pytest

from headrace import ConfigError, HeadraceError, RetriableError
from headrace.errors import LoginError
from headrace_sinks.iceberg import IcebergSink

_JAVA = "org.apache.iceberg.exceptions."
VENDED = {"header.X-Iceberg-Access-Delegation": "vended-credentials"}
EXPIRED = "software.amazon.awssdk.services.s3.model.S3Exception: The provided token has expired. (Service: S3, Status Code: 400)"


def explain(text: str, **properties: str) -> HeadraceError | None:
    sink = IcebergSink({"catalog": "lake", "catalog.properties": {"type": "rest", **properties}})
    return sink.explain(RuntimeError(text))


@pytest.mark.parametrize(
    ("text", "kind", "expected"),
    [
        (
            "NotAuthorizedException: Not authorized: invalid_client: unknown client",
            LoginError,
            "invalid_client: unknown",
        ),
        (
            "RESTException: Unable to process (code: 419, type: AuthenticationTimeoutException): the token expired",
            LoginError,
            "the catalog rejected the login: Unable to process (code: 419, type: AuthenticationTimeoutException): the token",
        ),
        (
            "ForbiddenException: Forbidden: no TABLE_WRITE_DATA",
            ConfigError,
            "permission denied by the catalog: Forbidden",
        ),
        (
            "NoSuchWarehouseException: Warehouse not found: silver",
            ConfigError,
            "no such warehouse: Warehouse not found",
        ),
        ("NotFoundException: Unable to find warehouse silver", ConfigError, "no such warehouse: Unable to find"),
        ("BadRequestException: Malformed request: invalid_scope: no", ConfigError, "the catalog rejects the request: "),
        (
            "RESTException: Received a success response code of 200, but failed to parse response body into ConfigResponse",
            ConfigError,
            "the server is not an Iceberg REST catalog: ",
        ),
        (
            "RESTException: Error occurred while processing GET request\na.JsonParseException: Unexpected character ('<' (code 60))\n at",
            ConfigError,
            "the server is not an Iceberg REST catalog: Unexpected character ('<' (code 60))",
        ),
        ("CommitFailedException: Commit failed: branch main has changed", RetriableError, "another writer committed"),
        ("CommitStateUnknownException: Service failed: 503: later", RetriableError, "the answer to a commit was lost"),
        (
            "ServiceUnavailableException: Service unavailable: later",
            RetriableError,
            "the catalog is busy or not available",
        ),
        (
            "RESTException: Unable to process (code: 429, type: TooManyRequests): slow down",
            RetriableError,
            "the catalog is busy or not available",
        ),
        (
            "RESTException: Unable to process (code: 502, type: IllegalArgumentException): <html>Bad Gateway</html>",
            RetriableError,
            "the catalog is busy or not available",
        ),
        ("NoSuchTableException: Table does not exist: a.b", RetriableError, "the catalog no longer has the table: "),
        ("RESTException: Error occurred while processing POST request", RetriableError, "the catalog did not answer: "),
    ],
)
def test_errors_of_the_client(text: str, kind: type[HeadraceError], expected: str) -> None:
    error = explain(_JAVA + text)
    assert type(error) is kind
    assert expected in str(error)


def test_unknown_outcome_is_not_taken_for_another_error() -> None:
    """The text of a lost answer contains that of its cause."""
    text = f"{_JAVA}CommitStateUnknownException: Unable to process (code: 504, type: null): timeout\nCannot determine whether"
    cause = f"Caused by: {_JAVA}ServiceFailureException: Service failed: 504: timeout"
    assert "the answer to a commit was lost" in str(explain(f"{text}\n{cause}"))


def test_expired_storage_credentials_are_temporary_if_the_catalog_issues_them() -> None:
    error = explain(EXPIRED, **VENDED)
    assert type(error) is RetriableError
    assert "the storage credentials that the catalog issued expired" in str(error)
    assert type(explain(EXPIRED)) is ConfigError
