"""S3 server: signatures, conditional requests, and one build per machine."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError
from tests.support.pages import find_block

from headrace.errors import ConfigError, RetriableError
from headrace_stack import S3
from headrace_stack.download import golang

pytestmark = [pytest.mark.dist, pytest.mark.one_spark]

PACKAGE = "example.org/rocket/cmd/rocket"
#: Fake Go compiler that prints its version, counts the builds, and writes a program.
GO = """#!/bin/sh
[ "$1" = env ] && { %s; }
echo x >> "$COUNT"
%s
while [ "$1" != -o ]; do shift; done
printf '#!/bin/sh\\necho lift off\\n' > "$2"; chmod +x "$2"
"""


@pytest.fixture(scope="module")
def s3() -> Iterator[S3]:
    with S3() as server:
        server.create_bucket("lake")
        server.put("lake", "a/b", b"x")
        yield server


def log_in(s3: S3, access_key: str, secret_key: str) -> Any:
    """Return a client with these keys."""
    import boto3

    session = boto3.Session(aws_access_key_id=access_key, aws_secret_access_key=secret_key)
    return session.client("s3", endpoint_url=s3.endpoint_url, region_name=s3.region)


def error_of(s3: S3, access_key: str, secret_key: str) -> tuple[int, str]:
    """Return status and error code of a read with these keys."""
    with pytest.raises(ClientError) as raised:
        log_in(s3, access_key, secret_key).get_object(Bucket="lake", Key="a/b")
    answer: Any = raised.value.response
    return answer["ResponseMetadata"]["HTTPStatusCode"], answer["Error"]["Code"]


@pytest.mark.nightly
def test_wrong_signature_is_rejected(s3: S3) -> None:
    assert error_of(s3, s3.access_key, "guessed") == (403, "SignatureDoesNotMatch")
    assert error_of(s3, "AKIASOMEBODY", s3.secret_key) == (403, "InvalidAccessKeyId")
    s3.create_user("AKIAREADER", "-a/+&=secret")
    assert error_of(s3, "AKIAREADER", "-a/+&=secret") == (403, "AccessDenied")


def test_objects_are_written_read_and_listed(s3: S3) -> None:
    names = [f"many/{number:04}" for number in range(1002)]
    with ThreadPoolExecutor(4) as pool:
        client = s3.client()
        list(pool.map(lambda name: client.put_object(Bucket="lake", Key=name, Body=name.encode()), names))
    assert s3.keys("lake", "many/") == names
    assert s3.read("lake", "many/1001") == b"many/1001"
    with pytest.raises(ClientError, match="NoSuchKey"):
        s3.read("lake", "many/1002")
    with pytest.raises(ClientError, match="NoSuchBucket"):
        s3.keys("sea")


@pytest.mark.nightly
def test_conditional_write_has_one_winner(s3: S3) -> None:
    start = threading.Barrier(8)
    answers: list[int] = []

    def write(number: int) -> bool:
        client = s3.client()
        start.wait()
        try:
            client.put_object(Bucket="lake", Key="lock", Body=str(number).encode(), IfNoneMatch="*")
        except client.exceptions.ClientError as error:
            answers.append(error.response["ResponseMetadata"]["HTTPStatusCode"])
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        won = list(pool.map(write, range(8)))
    assert (won.count(True), {*answers} <= {409, 412}) == (1, True)
    assert s3.read("lake", "lock") == str(won.index(True)).encode()


@pytest.mark.nightly
def test_multipart_object_appears_when_complete(s3: S3) -> None:
    client = s3.client()
    upload = client.create_multipart_upload(Bucket="lake", Key="parts")["UploadId"]
    upload_key = {"Bucket": "lake", "Key": "parts", "UploadId": upload}
    bodies = [b"a" * (5 << 20), b"b"]
    tags = [client.upload_part(**upload_key, PartNumber=n, Body=body)["ETag"] for n, body in enumerate(bodies, 1)]
    assert s3.keys("lake", "parts") == []
    parts = [{"ETag": tag, "PartNumber": number} for number, tag in enumerate(tags, 1)]
    client.complete_multipart_upload(**upload_key, MultipartUpload={"Parts": parts})
    assert s3.read("lake", "parts") == b"".join(bodies)


@pytest.mark.nightly
def test_server_listens_only_on_loopback(s3: S3) -> None:
    listening = {line.split()[1] for line in Path("/proc/net/tcp").read_text().splitlines() if line.split()[3] == "0A"}
    assert f"0100007F:{s3.port:04X}" in listening
    assert f":{s3.port:04X}" not in Path("/proc/net/tcp6").read_text()


@pytest.mark.nightly
def test_client_is_configured_by_the_environment(s3: S3, monkeypatch: pytest.MonkeyPatch) -> None:
    import boto3

    for name, value in s3.environment.items():
        monkeypatch.setenv(name, value)
    found = boto3.Session(region_name=s3.region).client("s3", endpoint_url=s3.endpoint_url)
    assert found.get_object(Bucket="lake", Key="a/b")["Body"].read() == b"x"
    assert s3.secret_key not in str(dict(s3.hadoop_options))


@pytest.mark.nightly
def test_example_in_the_docs() -> None:
    example = find_block("docs/test-servers.md", "python", "def test_an_object_lies_in_a_bucket(")
    names: dict[str, Any] = {}
    exec(example, names)
    with S3() as s3:
        names["test_an_object_lies_in_a_bucket"](s3)


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Provide a module to build, an empty cache and a PATH with only the programs of a shell."""
    monkeypatch.setenv("HEADRACE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    monkeypatch.setenv("COUNT", str(tmp_path / "count"))
    monkeypatch.setattr("shutil.which", lambda name: str(path) if (path := tmp_path / "bin" / name).exists() else None)
    (tmp_path / "bin").mkdir()
    folder = tmp_path / "module"
    folder.mkdir()
    (folder / "go.mod").write_text("module example.org/rocket\n\ngo 1.25.0\n")
    (folder / "go.sum").write_text("")
    return folder


def install_go(module: Path, *, version: str = "echo go1.26; exit", build: str = "") -> None:
    go = module.parent / "bin" / "go"
    go.write_text(GO % (version, build))
    go.chmod(0o755)


@pytest.mark.nightly
def test_concurrent_callers_build_a_program_once(module: Path) -> None:
    install_go(module)
    messages: list[str] = []
    with ThreadPoolExecutor(4) as pool:
        programs = set(pool.map(lambda _: golang.build(module, PACKAGE, messages.append), range(4)))
    (program,) = programs
    assert (program.name, os.access(program, os.X_OK)) == ("rocket", True)
    assert (module.parent / "count").read_text() == "x\n"
    assert len([text for text in messages if "building from source" in text]) == 1
    assert {path.name for path in program.parents[1].iterdir()} == {"lock", program.parent.name}
    (module / "go.sum").write_text("example.org/rocket v1.0.1 h1:\n")
    assert golang.build(module, PACKAGE, messages.append) != program


def test_missing_go_is_reported(module: Path) -> None:
    with pytest.raises(ConfigError, match=r"go is not on the PATH\s+fix: install Go 1.25 or later"):
        golang.build(module, PACKAGE, lambda text: None)


def test_old_go_is_reported(module: Path) -> None:
    error_command = "echo 'go: go.mod requires go >= 1.25.0 (running go 1.22.1; GOTOOLCHAIN=local)' >&2; exit 1"
    install_go(module, version=error_command)
    with pytest.raises(ConfigError, match=r"bin/go cannot be used: go: go.mod requires go >= 1.25.0") as raised:
        golang.build(module, PACKAGE, lambda text: None)
    assert raised.value.fix == "install Go 1.25 or later"


def test_failed_build_leaves_no_files_and_states_the_reason(module: Path) -> None:
    install_go(module, build="echo 'go: downloading x v1' >&2; echo 'x@v1: dial tcp: no such host' >&2; exit 1")
    with pytest.raises(
        RetriableError, match=r"the build with Go failed: x@v1: dial tcp: no such host\s+fix: .*GOPROXY"
    ):
        golang.build(module, PACKAGE, lambda text: None)
    assert [path.name for path in (module.parent / "cache/stack/built").iterdir()] == ["lock"]
