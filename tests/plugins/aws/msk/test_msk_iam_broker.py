"""Spark's authentication at a broker that verifies signatures. Keys are JVM properties, because a JVM's environment cannot change.

The broker is ``headrace_stack.Msk``, not MSK. A local server provides STS and the MSK API: it returns keys that the broker issued
to the JVM client, and the broker's address to boto3. Spark keeps clients of finished tests, which re-authenticate with the current
keys. So only a failed run proves a rejected login; the broker's log does not.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, unquote

import pytest
import yaml
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from tests.plugins.sources.transports.test_kafka_source import change, names
from tests.support import pipelines
from tests.support.tiers import nightly_after
from tests.support.waiting import stop_at_end, until, until_tables

from headrace import ConfigError, HeadraceError, Pipeline
from headrace.runtime.jars.resolution import cache_home
from headrace_stack import Msk
from headrace_stack.msk import Key

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.dist]

CLUSTER = "arn:aws:kafka:eu-west-1:123456789012:cluster/demo/0f0e-1"
ROLE = "arn:aws:iam::123456789012:role/reader"
#: Without quotes, the end of this value would be another login option.
EXTERNAL_ID = 'hush "4711\\" awsRoleArn="other"; // é'
MECHANISMS = ("AWS_MSK_IAM", "OAUTHBEARER")
#: A connection must re-authenticate before this age.
REAUTHENTICATION_MS = 3000


@pytest.fixture(scope="module")
def msk() -> Iterator[Msk]:
    settings = {
        "connections.max.reauth.ms": str(REAUTHENTICATION_MS),
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "allow.everyone.if.no.acl.found": "true",
        "super.users": "User:ANONYMOUS",
    }
    with Msk(config=settings) as server:
        yield server


class Jvm:
    """Credentials of the JVM client: its system properties."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self._properties: Any = spark._jvm.java.lang.System  # type: ignore[union-attr]
        self._before: dict[str, str | None] = {}
        self.profiles = folder / "credentials"
        self.set("aws.disableEc2Metadata", "true")
        self.set("aws.sharedCredentialsFile", str(self.profiles))
        self.set("aws.configFile", str(folder / "config"))

    def set(self, name: str, value: str | None) -> None:
        self._before.setdefault(name, self._properties.getProperty(name))
        self._properties.setProperty(name, value) if value else self._properties.clearProperty(name)

    def use(self, key: Key | None) -> None:
        """Set the credentials of this process."""
        self.set("aws.accessKeyId", key.id if key else None)
        self.set("aws.secretAccessKey", key.secret if key else None)
        self.set("aws.sessionToken", key.token if key else None)

    def restore(self) -> None:
        for name, value in list(self._before.items()):
            self.set(name, value)


@pytest.fixture
def jvm(spark: SparkSession, tmp_path: Path) -> Iterator[Jvm]:
    key_fields = Jvm(spark, tmp_path)
    yield key_fields
    key_fields.restore()


@pytest.fixture
def topic(msk: Msk) -> str:
    name = f"shop{uuid.uuid4().hex[:8]}.orders"
    msk.produce(name, change("c", 1, "a", lsn=1))
    return name


def source(msk: Msk, topic: str, block: Mapping[str, Any] | None = None) -> dict[str, Any]:
    kafka = {
        "bootstrap.servers": msk.iam.bootstrap_servers,
        "subscribe": topic,
        "auth": {"msk-iam": {"region": "eu-west-1", **(block or {})}},
        "kafka.ssl.truststore.type": "PEM",
        "kafka.ssl.truststore.location": str(msk.iam.ca),
    }
    return {"kafka": kafka, "value": {"json": {}}}


def job(msk: Msk, topic: str, folder: Path, block: Mapping[str, Any] | None = None) -> Pipeline:
    return pipelines.pipeline(folder, source=source(msk, topic, block), tables=[])


def config_error(pipeline: Pipeline, spark: SparkSession) -> str:
    with pytest.raises(ConfigError) as refused:
        pipeline.run(spark)
    assert refused.value.exit_code == 2
    return str(refused.value)


@pytest.mark.parametrize("mechanism", nightly_after(1, MECHANISMS))
def test_rows_reach_the_table(
    msk: Msk, topic: str, jvm: Jvm, spark: SparkSession, tmp_path: Path, mechanism: str
) -> None:
    jvm.use(msk.issue_key(f"lasting-{topic}"))
    pipeline = job(msk, topic, tmp_path, {"mechanism": mechanism})
    pipeline.run(spark)
    assert names(pipeline, spark, topic) == {1: "a"}
    assert msk.count_logins(mechanism, f"lasting-{topic}")
    jvm.use(msk.issue_key(f"session-{topic}", seconds=600))
    msk.produce(topic, change("c", 2, "b", lsn=2))
    pipeline = job(msk, topic, tmp_path, {"mechanism": mechanism})
    pipeline.run(spark)
    assert names(pipeline, spark, topic) == {1: "a", 2: "b"}
    assert msk.count_logins(mechanism, f"session-{topic}")
    message = [item.found for item in pipeline.check(spark, connect=True)]
    assert any(f"SASL_SSL, {mechanism}: authentication succeeded" in text for text in message)


@pytest.mark.parametrize("mechanism", nightly_after(1, MECHANISMS))
def test_rejected_keys(msk: Msk, topic: str, jvm: Jvm, spark: SparkSession, tmp_path: Path, mechanism: str) -> None:
    lasting, session = msk.issue_key(), msk.issue_key(seconds=600)
    for key in (
        replace(lasting, secret="guessed-4711"),
        replace(lasting, id="AKIAGUESSED"),
        replace(session, token="guessed-4711"),
        msk.issue_key(seconds=-1),
    ):
        jvm.use(key)
        message = config_error(job(msk, topic, tmp_path, {"mechanism": mechanism}), spark)
        assert "auth msk-iam: the broker rejected the login of this process" in message
        assert "Access denied" in message
        assert "session token, which can have expired" in message
        assert key.secret not in message


@pytest.mark.nightly
@pytest.mark.one_spark
def test_no_credentials(msk: Msk, topic: str, jvm: Jvm, spark: SparkSession, tmp_path: Path) -> None:
    """Run AWS_MSK_IAM only. OAUTHBEARER clients of a process share one login, so `test_program_with_separate_executor` covers it."""
    jvm.use(None)
    message = config_error(job(msk, topic, tmp_path), spark)
    assert "auth msk-iam: no AWS credentials found for this process" in message
    assert "AWS_WEB_IDENTITY_TOKEN_FILE" in message


@pytest.mark.nightly
@pytest.mark.one_spark
def test_profile_excludes_other_providers(msk: Msk, topic: str, jvm: Jvm, spark: SparkSession, tmp_path: Path) -> None:
    key = msk.issue_key("of a profile")
    jvm.profiles.write_text(f"[etl]\naws_access_key_id = {key.id}\naws_secret_access_key = {key.secret}\n")
    jvm.use(None)
    pipeline = job(msk, topic, tmp_path, {"profile": "etl"})
    pipeline.run(spark)
    assert names(pipeline, spark, topic) == {1: "a"}
    assert msk.count_logins("AWS_MSK_IAM", "of a profile")
    jvm.use(msk.issue_key("the process"))
    message = config_error(job(msk, topic, tmp_path, {"profile": "nobody"}), spark)
    assert "no AWS credentials found for profile nobody" in message


class Sts:
    """STS, which returns keys of ``issue`` or denies the request, and the MSK API, which returns ``brokers``."""

    def __init__(self) -> None:
        self.requests: list[dict[str, str]] = []
        self.issue: Callable[[], Key] | None = None
        self.brokers = ""
        sts = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
                sts.requests.append({name: values[0] for name, values in body.items()})
                status, answer = sts._answer()
                self.send_response(status)
                self.send_header("Content-Type", "text/xml")
                self.end_headers()
                self.wfile.write(answer.encode())

            def do_GET(self) -> None:
                sts.requests.append({"path": unquote(self.path)})
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.end_headers()
                self.wfile.write(json.dumps({"bootstrapBrokerStringSaslIam": sts.brokers}).encode())

            def log_message(self, *args: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def _answer(self) -> tuple[int, str]:
        if self.issue is None:
            message = f"User: arn:aws:iam::123456789012:user/me is not authorized to perform: sts:AssumeRole on resource: {ROLE}"
            error = f"<Error><Type>Sender</Type><Code>AccessDenied</Code><Message>{message}</Message></Error>"
            return 403, f"<ErrorResponse>{error}<RequestId>1</RequestId></ErrorResponse>"
        key = self.issue()
        end = datetime.fromtimestamp(key.expires or 0, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        key_fields = f"<AccessKeyId>{key.id}</AccessKeyId><SecretAccessKey>{key.secret}</SecretAccessKey>"
        credentials = f"{key_fields}<SessionToken>{key.token}</SessionToken><Expiration>{end}</Expiration>"
        result = f"<AssumeRoleResult><Credentials>{credentials}</Credentials></AssumeRoleResult>"
        return (
            200,
            f'<AssumeRoleResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/">{result}</AssumeRoleResponse>',
        )


@pytest.fixture
def sts(jvm: Jvm, msk: Msk) -> Iterator[Sts]:
    server = Sts()
    jvm.set("aws.endpointUrlSts", server.url)
    jvm.use(Key("AKIAPROCESS", "of the process"))
    thread = threading.Thread(target=server.server.serve_forever, args=(0.01,))
    thread.start()
    yield server
    server.server.shutdown()
    server.server.server_close()
    thread.join()


@pytest.mark.nightly
@pytest.mark.one_spark
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_assumed_role(msk: Msk, topic: str, sts: Sts, spark: SparkSession, tmp_path: Path, mechanism: str) -> None:
    sts.issue = lambda: msk.issue_key(f"role-{topic}", seconds=3600)
    block = {"role.arn": ROLE, "external.id": EXTERNAL_ID, "session.name": "orders", "mechanism": mechanism}
    pipeline = job(msk, topic, tmp_path, block)
    pipeline.run(spark)
    assert names(pipeline, spark, topic) == {1: "a"}
    assert msk.count_logins(mechanism, f"role-{topic}")
    for requests in sts.requests:
        assert (requests["Action"], requests["RoleArn"], requests["RoleSessionName"]) == ("AssumeRole", ROLE, "orders")
        assert requests["ExternalId"] == EXTERNAL_ID


@pytest.mark.nightly
@pytest.mark.one_spark
def test_cluster_arn(
    msk: Msk, topic: str, sts: Sts, jvm: Jvm, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = msk.issue_key(f"cluster-{topic}")
    jvm.use(key)
    for name, value in {**key.environment, "AWS_ENDPOINT_URL_KAFKA": sts.url}.items():
        monkeypatch.setenv(name, value)
    sts.brokers = msk.iam.bootstrap_servers
    source_config = source(msk, topic)
    source_config["kafka"]["auth"] = {"msk-iam": {"cluster.arn": CLUSTER}}
    del source_config["kafka"]["bootstrap.servers"]
    pipeline = pipelines.pipeline(tmp_path, source=source_config, tables=[])
    pipeline.run(spark)
    assert names(pipeline, spark, topic) == {1: "a"}
    assert msk.count_logins("AWS_MSK_IAM", f"cluster-{topic}")
    assert sts.requests == [{"path": f"/v1/clusters/{CLUSTER}/bootstrap-brokers"}]
    message = {item.what: item.found for item in pipeline.check(spark, connect=True)}
    assert message["auth msk-iam"] == f"cluster {CLUSTER}, private: {msk.iam.bootstrap_servers}"


@pytest.mark.nightly
@pytest.mark.one_spark
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_denied_role_has_no_fallback(
    msk: Msk, topic: str, sts: Sts, jvm: Jvm, spark: SparkSession, tmp_path: Path, mechanism: str
) -> None:
    jvm.use(msk.issue_key(f"process-{topic}"))
    message = config_error(job(msk, topic, tmp_path, {"role.arn": ROLE, "mechanism": mechanism}), spark)
    assert (
        f"auth msk-iam: {ROLE} cannot be assumed: User: arn:aws:iam::123456789012:user/me is not authorized" in message
    )


@pytest.mark.nightly
@pytest.mark.one_spark
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_stream_reauthenticates_and_renews_its_role(
    msk: Msk, topic: str, sts: Sts, spark: SparkSession, tmp_path: Path, mechanism: str
) -> None:
    """Connections and credentials expire after seconds, and rows arrive before and after that."""
    sts.issue = lambda: msk.issue_key(f"stream-{topic}", seconds=6)
    pipeline = job(msk, topic, tmp_path, {"role.arn": ROLE, "mechanism": mechanism})
    with stop_at_end(pipeline.start(spark, "200 ms")) as query:
        until(lambda: query.recent_progress, "the first batch")
        before = msk.count_logins(mechanism, f"stream-{topic}")
        requests = len(sts.requests)
        until(lambda: msk.count_logins(mechanism, f"stream-{topic}") >= before + 6, "logins")
        assert len(sts.requests) > requests
        msk.produce(topic, change("c", 2, "b", lsn=2))
        until_tables(query, lambda: (names(pipeline, spark, topic), {1: "a", 2: "b"}), "the second row")
        assert query.status.error is None
    assert query.exception is None


@pytest.mark.nightly
@pytest.mark.one_spark
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_credentials_expire_during_a_stream(
    msk: Msk, topic: str, jvm: Jvm, spark: SparkSession, tmp_path: Path, mechanism: str
) -> None:
    jvm.use(msk.issue_key(f"short-{topic}", seconds=12))
    pipeline = job(msk, topic, tmp_path, {"mechanism": mechanism})
    with stop_at_end(pipeline.start(spark, "200 ms")) as query:
        until(lambda: query.recent_progress, "the first batch")
        until(lambda: not query.is_active, "the end of the run")
    assert isinstance(query.exception, HeadraceError)
    assert query.exception.exit_code == 2
    assert "the broker rejected the login of this process" in str(query.exception)
    jvm.use(msk.issue_key())
    msk.produce(topic, change("c", 2, "b", lsn=2))
    job(msk, topic, tmp_path, {"mechanism": mechanism}).run(spark)
    assert names(pipeline, spark, topic) == {1: "a", 2: "b"}


@pytest.mark.nightly
@pytest.mark.one_spark
def test_topic_without_read_permission(msk: Msk, topic: str, jvm: Jvm, spark: SparkSession, tmp_path: Path) -> None:
    jvm.use(msk.issue_key("stranger"))
    nothing = (AclOperation.ALL, AclPermissionType.DENY)
    acl = AclBinding(ResourceType.TOPIC, topic, ResourcePatternType.LITERAL, "User:stranger", "*", *nothing)
    admin = AdminClient({"bootstrap.servers": msk.bootstrap_servers})
    admin.create_acls([acl])[acl].result(30)
    message = config_error(job(msk, topic, tmp_path), spark)
    assert "auth msk-iam: this process has no permission to read one of the topics" in message
    assert "allow kafka-cluster:DescribeTopic and kafka-cluster:ReadData on them" in message


@pytest.mark.nightly
@pytest.mark.one_spark
@pytest.mark.slow
def test_program_with_separate_executor(msk: Msk, topic: str, tmp_path: Path) -> None:
    """Run with keys in the environment, and with executors outside the driver's process."""

    def run(key: Key | None, master: str, mechanism: str) -> subprocess.CompletedProcess[str]:
        config = {
            "name": "orders",
            "source": source(msk, topic, {"mechanism": mechanism}),
            "transforms": ["unwrap"],
            "sink": "console",
            "checkpoint": str(tmp_path / "checkpoint"),
            "spark": {"spark.master": master, "spark.sql.shuffle.partitions": 1},
        }
        file = tmp_path / "orders.yaml"
        file.write_text(yaml.safe_dump(config))
        command = [sys.executable, "-m", "headrace", "run", str(file), "--available-now"]
        environment = {**os.environ, "AWS_EC2_METADATA_DISABLED": "true", "HOME": str(tmp_path)}
        environment |= {"HEADRACE_CACHE": str(cache_home()), **(key.environment if key else {})}
        return subprocess.run(command, check=False, capture_output=True, text=True, timeout=300, env=environment)

    key = msk.issue_key(f"program-{topic}")
    done = run(key, "local-cluster[1,1,1024]", "AWS_MSK_IAM")
    assert done.returncode == 0, done.stderr
    assert "1 row in, 1 applied" in done.stdout
    done = run(None, "local[1]", "OAUTHBEARER")
    assert done.returncode == 2, done.stderr
    assert "error: no AWS credentials found for this process\nwhere: auth msk-iam\n" in done.stderr
