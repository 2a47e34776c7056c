"""Kinesis with a profile or a role, on the driver and on executors.

kinesis-local accepts any credentials, so a proxy in front of it records them. STS is moto's, which also accepts any keys
and reports the owner of issued ones. moto has no expiry and no denials; botocore's Stubber and a local server provide these.
"""

from __future__ import annotations

import re
import threading
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import boto3
import pytest
from botocore.stub import Stubber
from tests.plugins.sources.kinesis.test_kinesis_source import job, row, rows
from tests.support.executors import Environment
from tests.support.glue import Glue
from tests.support.kinesis_proxy import KinesisProxy
from tests.support.waiting import stop_at_end, until, until_tables

from headrace import ConfigError
from headrace.errors import LoginError
from headrace_aws import identity
from headrace_aws.identity import Identity
from headrace_sources.kinesis.kinesis_source import KinesisSource
from headrace_stack import Kinesis

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.dist, pytest.mark.one_spark]

ROLE = "arn:aws:iam::123456789012:role/reader"
SECRET = "hush-4711"
AS_ROLE = {"role.arn": ROLE, "external.id": SECRET, "session.name": "orders"}
DENIED = "User: arn:aws:iam::123456789012:user/etl is not authorized to perform: sts:AssumeRole on resource: " + ROLE


@pytest.fixture(scope="module")
def sts() -> Iterator[Glue]:
    with Glue() as server:
        yield server


class RecordingProxy(KinesisProxy):
    """Proxy that records key and token of each request."""

    def __init__(self, kinesis: Kinesis) -> None:
        super().__init__(kinesis)
        self.keys: dict[str, str | None] = {}

    def answer(self, request: BaseHTTPRequestHandler, body: bytes) -> None:
        match = re.search(r"Credential=(\w+)/", request.headers["Authorization"])
        assert match
        self.keys[match[1]] = request.headers["X-Amz-Security-Token"]
        super().answer(request, body)


@pytest.fixture
def proxy(kinesis: Kinesis) -> Iterator[RecordingProxy]:
    with RecordingProxy(kinesis) as proxy:
        yield proxy


class DenyingSts:
    """STS that denies every AssumeRole."""

    def __enter__(self) -> str:
        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"]))
                error = f"<Error><Type>Sender</Type><Code>AccessDenied</Code><Message>{DENIED}</Message></Error>"
                self.send_response(403)
                self.end_headers()
                self.wfile.write(f"<ErrorResponse>{error}<RequestId>1</RequestId></ErrorResponse>".encode())

            def log_message(self, *_: Any) -> None: ...

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()
        return f"http://127.0.0.1:{self.server.server_port}"

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture(autouse=True)
def environment(
    kinesis: Kinesis, sts: Glue, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Environment:
    result = Environment(spark, monkeypatch)
    result.set(kinesis.environment)
    result.set({"AWS_ENDPOINT_URL_STS": sts.endpoint_url, "AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "credentials")})
    return result


@pytest.fixture
def stream(kinesis: Kinesis) -> str:
    name = f"shop{uuid.uuid4().hex[:8]}.public.orders"
    kinesis.create_stream(name)
    kinesis.put(name, row(1, "a"), row(2, "b"))
    return name


@pytest.mark.nightly
def test_driver_and_executors_read_as_the_role(
    kinesis: Kinesis, sts: Glue, proxy: RecordingProxy, stream: str, tmp_path: Path, spark: SparkSession
) -> None:
    pipeline = job(kinesis, stream, tmp_path, {"endpoint.url": proxy.endpoint_url, **AS_ROLE})
    with stop_at_end(pipeline.start(spark, "100 ms")) as query:
        until(lambda: query.last_progress or not query.is_active, "the first batch")
        kinesis.put(stream, row(1, "A"))
        until_tables(query, lambda: (rows(pipeline, spark, stream), {1: "A", 2: "b"}), "the next row")
    assert query.exception is None
    assert len(proxy.keys) > 1  # keys of the driver and of an executor
    for key, token in proxy.keys.items():
        caller = boto3.client(
            "sts", sts.region, aws_access_key_id=key, aws_secret_access_key="unknown", aws_session_token=token
        )
        assert caller.get_caller_identity()["Arn"] == "arn:aws:sts::123456789012:assumed-role/reader/orders"
    source = pipeline.plan.source
    assert isinstance(source, KinesisSource)
    assert SECRET not in repr(source.config) + repr(source._selection) + repr(pipeline)


@pytest.mark.nightly
def test_driver_and_executors_read_as_the_profile(
    kinesis: Kinesis, proxy: RecordingProxy, stream: str, tmp_path: Path, spark: SparkSession
) -> None:
    (tmp_path / "credentials").write_text("[etl]\naws_access_key_id = AKIDETL\naws_secret_access_key = x\n")
    pipeline = job(kinesis, stream, tmp_path, {"endpoint.url": proxy.endpoint_url, "profile": "etl"})
    pipeline.run(spark)
    assert rows(pipeline, spark, stream) == {1: "a", 2: "b"}
    assert proxy.keys == {"AKIDETL": None}


def test_profile_that_assumes_a_role(kinesis: Kinesis, proxy: RecordingProxy, stream: str, tmp_path: Path) -> None:
    """boto3 calls STS in the session of the stream's client, which keeps the timestamps of Kinesis responses as numbers."""
    profiles = ["[default]", "aws_access_key_id = AKIDETL", "aws_secret_access_key = x"]
    profiles += ["[reader]", f"role_arn = {ROLE}", "source_profile = default", "region = us-east-1"]
    (tmp_path / "credentials").write_text("\n".join(profiles))
    source = KinesisSource(stream=stream, profile="reader", **{"endpoint.url": proxy.endpoint_url})
    assert source._selection.open(stream).make_client().describe_stream_summary(StreamName=stream)
    ((key, token),) = proxy.keys.items()
    assert (key.startswith("ASIA"), bool(token)) == (True, True)


@pytest.mark.nightly
@pytest.mark.parametrize("driver", [True, False])
def test_role_denial_is_reported_without_its_external_id(
    kinesis: Kinesis, stream: str, tmp_path: Path, spark: SparkSession, environment: Environment, driver: bool
) -> None:
    pipeline = job(kinesis, stream, tmp_path, AS_ROLE)
    with DenyingSts() as endpoint:
        environment.set({"AWS_ENDPOINT_URL_STS": endpoint}, driver=driver)
        with pytest.raises(ConfigError) as caught:
            pipeline.run(spark)
    assert not isinstance(caught.value, LoginError)
    assert str(caught.value) == (
        f"role {ROLE}: the role cannot be assumed: An error occurred (AccessDenied) when calling the AssumeRole operation: {DENIED}\n"
        "  fix: allow the caller in the role's trust policy, set `external.id` if the policy requires it, and allow sts:AssumeRole"
    )


def test_unknown_profile(kinesis: Kinesis, stream: str, tmp_path: Path, spark: SparkSession) -> None:
    with pytest.raises(ConfigError, match="unknown profile 'etl'") as caught:
        job(kinesis, stream, tmp_path, {"profile": "etl"}).run(spark)
    assert "`profile` of the block" in str(caught.value)


class StubbedSts:
    """Sequence of STS responses."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        client = boto3.client("sts", "eu-west-1", aws_access_key_id="AKID", aws_secret_access_key="x")
        self.answers = Stubber(client)
        self.answers.activate()
        patch.setattr(identity, "make_client", lambda *_: client)

    def add_response(self, key: str, **validity: int) -> None:
        keys = {"AccessKeyId": key * 16, "SecretAccessKey": SECRET, "SessionToken": "t"}
        request = {"RoleArn": ROLE, "RoleSessionName": "headrace", "ExternalId": "x-1"}
        expiration = datetime.now(UTC) + timedelta(**validity)
        self.answers.add_response("assume_role", {"Credentials": {**keys, "Expiration": expiration}}, request)


def test_keys_are_renewed_before_expiry(monkeypatch: pytest.MonkeyPatch) -> None:
    sts = StubbedSts(monkeypatch)
    credentials = Identity("eu-west-1", role_arn=ROLE, external_id="x-1").open_session("kinesis").get_credentials()
    for key, validity in (("A", 5), ("B", 9), ("C", 60)):  # botocore renews keys ten minutes before they expire
        sts.add_response(key, minutes=validity)
        assert credentials.get_frozen_credentials().access_key == key * 16
    assert credentials.get_frozen_credentials().access_key == "C" * 16
    sts.answers.assert_no_pending_responses()


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("ExpiredTokenException", f"role {ROLE}: the session token has expired"),
        ("InvalidClientTokenId", f"role {ROLE}: AWS rejected the credentials: InvalidClientTokenId"),
        ("ValidationError", f"role {ROLE}: AWS rejected the request: "),
    ],
)
def test_role_errors_during_a_run(monkeypatch: pytest.MonkeyPatch, code: str, message: str) -> None:
    sts = StubbedSts(monkeypatch)
    source = KinesisSource(stream="orders", region="eu-west-1", **{"role.arn": ROLE, "external.id": "x-1"})
    client = source._selection.open("orders").make_client()
    sts.answers.add_client_error("assume_role", code, "no")
    with pytest.raises(ConfigError) as caught:
        client.list_shards(StreamName="orders")
    assert str(source._selection.open("orders").explain(caught.value, "ListShards")).startswith(message)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"profile": "etl", "role.arn": ROLE}, "`profile` and `role.arn` are both set"),
        ({"external.id": "x"}, "`external.id` requires `role.arn`"),
        ({"role.arn": "reader"}, "role.arn"),
        ({"session.name": "a b"}, "session.name"),
    ],
)
def test_contradictory_options(options: dict[str, str], complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        KinesisSource(stream="orders", **options)
