"""Checkpoints on S3 without a JVM: S3A options for boto3, and options without an equivalent in boto3."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from headrace.sdk import HeadraceError
from headrace_aws.s3a.s3_folder import S3Folder, _read_settings, open_s3_folder
from headrace_stack import S3


@pytest.mark.parametrize(
    "options",
    [
        {"fs.s3a.aws.credentials.provider": "org.example.Provider"},
        {"fs.s3a.assumed.role.arn": "arn:aws:iam::1:role/r"},
        {"fs.s3a.bucket.lake.server-side-encryption.key": "k"},
    ],
)
def test_options_that_only_s3a_has(options: Mapping[str, str]) -> None:
    assert open_s3_folder("s3a://lake/c", options) is None


@pytest.mark.parametrize("variable", ["AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"])
def test_endpoint_of_the_environment_is_left_to_the_jvm(variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """S3A ignores the variable, boto3 does not: without an endpoint in the options they might read two servers."""
    monkeypatch.setenv(variable, "http://localhost:1")
    assert open_s3_folder("s3a://lake/c", {}) is None
    keys = {"fs.s3a.access.key": "a", "fs.s3a.secret.key": "b"}
    assert open_s3_folder("s3a://lake/c", {"fs.s3a.endpoint": "http://localhost:2", **keys}) is not None


def test_bucket_options_take_precedence() -> None:
    options = {"fs.s3a.endpoint": "a", "fs.s3a.bucket.lake.endpoint": "b", "fs.s3a.bucket.other.endpoint": "c"}
    assert _read_settings(options, "lake") == {"endpoint": "b"}


@pytest.fixture(scope="module")
def s3() -> Iterator[S3]:
    with S3() as server:
        yield server


@pytest.fixture
def options(s3: S3) -> dict[str, Any]:
    return {**s3.hadoop_options, "fs.s3a.access.key": s3.access_key, "fs.s3a.secret.key": s3.secret_key}


def open_folder(address: str, options: Mapping[str, str]) -> S3Folder:
    folder = open_s3_folder(address, {**options, "fs.s3a.attempts.maximum": "2"})
    assert folder is not None
    return folder


@pytest.mark.dist
def test_names_and_content_of_a_bucket(s3: S3, options: dict[str, Any]) -> None:
    s3.create_bucket("lake")
    folder = open_folder("s3a://lake/checkpoints/a", options)
    assert folder.names() == []
    for key in ("progress/0.json", "progress/1.json", "progress/_hidden", "backlog/_t/0.json"):
        folder._client.put_object(Bucket="lake", Key=f"checkpoints/a/{key}", Body="tö".encode())
    assert folder.names() == ["backlog", "progress"]
    assert folder.folder("progress").names() == ["0.json", "1.json"]
    assert folder.folder("backlog").names(hidden=True) == ["_t"]
    assert folder.folder("progress").read("0.json") == "tö"
    assert folder.read("none") is None
    assert open_folder("s3a://lake", options).names() == ["checkpoints"]


@pytest.mark.dist
def test_rejected_requests(s3: S3, options: dict[str, Any]) -> None:
    missing = open_folder("s3a://no-such-bucket/c", options)
    for request in (missing.names, lambda: missing.read("headrace.json")):
        with pytest.raises(HeadraceError, match="no such bucket: no-such-bucket") as raised:
            request()
        assert raised.value.where == "s3a://no-such-bucket/c"
