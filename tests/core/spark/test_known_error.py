"""Known errors of libraries: their patterns, and the reported errors."""

from __future__ import annotations

import pytest

from headrace.errors import ConfigError, RetriableError
from headrace.sdk.error_text import KnownError, explain_known_error

KNOWN = (
    KnownError(
        r"no bucket (\S+)|no store (\S+)", ConfigError, "no such bucket: {detail}", "create {detail} in {region}"
    ),
    KnownError("CommitFailed", RetriableError, "conflict: {line}", "retry", where="sink lake"),
    KnownError("denied", ConfigError, "access denied: {message}", "grant it"),
)


def explain(text: str) -> str:
    return str(explain_known_error(RuntimeError(text), KNOWN, where="source s3", region="eu-1"))


@pytest.mark.parametrize("text", ["x\njava.io.IOException: no bucket lake.\ny", "no store lake"])
def test_detail_is_the_group_that_matched(text: str) -> None:
    assert explain(text) == "source s3: no such bucket: lake\n  fix: create lake in eu-1"


def test_line_is_reported_without_its_cause_prefix() -> None:
    assert explain("a\nCaused by: x.y.CommitFailedException: {v}\nb") == (
        "sink lake: conflict: x.y.CommitFailedException: {v}\n  fix: retry"
    )


@pytest.mark.parametrize(
    "text",
    [
        "java.lang.RuntimeException: org.acme.Files$AccessException: denied to 'me'",
        "StreamingQueryException: [STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: denied to 'me'",
    ],
)
def test_message_has_no_exception_class(text: str) -> None:
    assert explain(text) == "source s3: access denied: denied to 'me'\n  fix: grant it"


def test_first_matching_error_is_used_and_others_are_not_explained() -> None:
    assert "conflict" in explain("denied\nCommitFailed")
    assert explain_known_error(RuntimeError("something else"), KNOWN) is None
