"""Options of MSK authentication without a broker. AWS is moto or a local server."""

from __future__ import annotations

import base64
import json
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import moto
import pytest
from botocore.exceptions import ClientError
from hypothesis import given, strategies as st
from jsonschema import Draft202012Validator

from headrace import ConfigError, Pipeline, RetriableError
from headrace.config.json_schema import pipeline_schema
from headrace.errors import LoginError
from headrace.registry.plugin_registry import registry
from headrace.runtime.jars.jar_choice import list_coordinates
from headrace.runtime.session.session_builder import complete_session_conf, with_parts
from headrace.runtime.session.session_check import list_missing_jars
from headrace.sdk.options import jaas_config
from headrace_aws import MskIam
from headrace_aws.identity import Identity
from headrace_sources import KafkaSource

BROKERS = "b-1.demo.abc123.c2.kafka.eu-west-1.amazonaws.com:9098"
ROLE = "arn:aws:iam::123456789012:role/reader"
CLUSTER = "arn:aws:kafka:eu-central-1:123456789012:cluster/demo/0f0e-1"
JAR = "software.amazon.msk:aws-msk-iam-auth:2.3.9:jar:all"


@pytest.fixture(autouse=True)
def aws(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Set credentials without a region, and isolate the test from the machine's AWS configuration."""
    for name in ("AWS_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "example")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))


def source(block: Any = None, **options: Any) -> KafkaSource:
    return KafkaSource({"bootstrap.servers": BROKERS, "subscribe": "orders", "auth": {"msk-iam": block}, **options})


def login(block: Any = None) -> dict[str, str]:
    return dict(MskIam(block).client_options(BROKERS))


def pipeline(text: str, folder: Path) -> Pipeline:
    file = folder / "orders.yaml"
    file.write_text(
        f"name: orders\nsource:\n  kafka:\n    subscribe: orders\n{text}  value: json\n"
        f"sink: {{console: {{}}}}\ncheckpoint: {folder}\n"
    )
    return Pipeline.from_file(file)


def test_client_options() -> None:
    assert login() == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "AWS_MSK_IAM",
        "sasl.jaas.config": "software.amazon.msk.auth.iam.IAMLoginModule required;",
        "sasl.client.callback.handler.class": "software.amazon.msk.auth.iam.IAMClientCallbackHandler",
        "reconnect.backoff.ms": "1000",
        "reconnect.backoff.max.ms": "10000",
    }
    handler = "software.amazon.msk.auth.iam.IAMOAuthBearerLoginCallbackHandler"
    bearer = login({"mechanism": "OAUTHBEARER"})
    assert bearer["sasl.client.callback.handler.class"] == bearer["sasl.login.callback.handler.class"] == handler
    assert bearer["sasl.jaas.config"].startswith("org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule ")


def test_profile_or_role_excludes_other_providers() -> None:
    module = "software.amazon.msk.auth.iam.IAMLoginModule required"
    assert login({"profile": "etl"})["sasl.jaas.config"] == (
        f'{module} awsProfileName="etl" awsAddDefaultProviders="false";'
    )
    role = {"role.arn": ROLE, "external.id": "x-1", "session.name": "orders", "sts.region": "us-east-1"}
    assert login(role)["sasl.jaas.config"] == (
        f'{module} awsRoleArn="{ROLE}" awsRoleSessionName="orders" awsRoleExternalId="x-1" awsStsRegion="us-east-1" '
        'awsAddDefaultProviders="false";'
    )
    assert 'awsRoleSessionName="headrace" awsStsRegion="eu-west-1"' in login({"role.arn": ROLE})["sasl.jaas.config"]
    for block, complaint in (
        ({"profile": "etl", "role.arn": ROLE}, "`profile` and `role.arn` are both set"),
        ({"external.id": "x"}, "`external.id` requires `role.arn`"),
        ({"role.arn": "reader"}, "role.arn"),
        ({"cluster.arn": ROLE}, "cluster.arn"),
        ({"region": "Ireland"}, "region"),
        ({"session.name": "a b"}, "session.name"),
        ({"mechanism": "PLAIN"}, "mechanism"),
        ({"network": "moon"}, "network"),
    ):
        with pytest.raises(ConfigError, match=complaint):
            MskIam(block)


@given(st.text(st.characters(codec="utf-8", exclude_characters="\x00")))
def test_quoted_values_are_escaped(value: str) -> None:
    """Parse with the rules of Java's StreamTokenizer, which Kafka's client uses."""
    jaas = jaas_config("Module", one=value, two=None, three="3")
    assert jaas.startswith('Module required one="')
    assert jaas.endswith(' three="3";')
    quoted = jaas.removeprefix('Module required one="').removesuffix('" three="3";')
    read, i = "", 0
    while i < len(quoted):
        assert quoted[i] not in '"\n\r'
        if quoted[i] != "\\":
            read, i = read + quoted[i], i + 1
        elif quoted[i + 1] in "0123":
            read, i = read + chr(int(quoted[i + 1 : i + 4], 8)), i + 4
        else:
            read, i = read + quoted[i + 1], i + 2
    assert read == value


def test_precedence_of_regions(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def regions(block: Any, servers: str = BROKERS) -> str:
        return MskIam(block).java_properties(servers)["aws.region"]

    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-west-2")
    assert regions({"region": "us-gov-west-1", "cluster.arn": CLUSTER}) == "us-gov-west-1"
    assert regions({"cluster.arn": CLUSTER}) == "eu-central-1"
    assert regions({}) == "eu-west-1"
    serverless = "boot-abc.c1.kafka-serverless.ap-southeast-2.amazonaws.com:9098"
    assert regions({}, serverless) == "ap-southeast-2"
    assert regions({}, "kafka.example.com:9098") == "us-west-2"
    monkeypatch.delenv("AWS_DEFAULT_REGION")
    (tmp_path / "config").write_text("[profile etl]\nregion = sa-east-1\n")
    assert regions({"profile": "etl"}, "localhost:9098") == "sa-east-1"
    with pytest.raises(ConfigError, match="no region is set, and localhost:9098 contains none") as caught:
        regions({}, "localhost:9098")
    assert "add `region: eu-west-1`, or set AWS_REGION" in str(caught.value)


def test_source_and_its_session(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEFAULT_ARTIFACT_REPOSITORY", "https://repo.example.com/maven/")
    kafka = source({"region": "eu-west-1"}, **{"kafka.reconnect.backoff.ms": 2000})
    plugins = with_parts([kafka])
    assert [plugin.name for plugin in plugins] == ["kafka", "msk-iam"]
    for line in ("3.5", "4.0", "4.1", "4.2"):
        assert JAR in list_coordinates(plugins, line)
    conf = complete_session_conf(plugins, {}, [])
    for key in ("spark.driver.extraJavaOptions", "spark.executor.extraJavaOptions"):
        assert "-Daws.region=eu-west-1" in conf[key]
    # Options in the file take precedence, except those of the authentication.
    assert kafka._options(())["kafka.reconnect.backoff.ms"] == "2000"
    assert kafka._options(())["kafka.sasl.mechanism"] == "AWS_MSK_IAM"
    with pytest.raises(ConfigError, match=r"has `auth` and kafka\.sasl\.mechanism, which `auth` sets"):
        source({}, **{"kafka.sasl.mechanism": "PLAIN"})
    (line_to_add,) = list_missing_jars(plugins, "3.5", lambda name: "kafka010" in name)
    path = "software/amazon/msk/aws-msk-iam-auth/2.3.9/aws-msk-iam-auth-2.3.9-all.jar"
    assert line_to_add == f'.config("spark.jars", "https://repo.example.com/maven/{path}")'


def test_pipeline_file(tmp_path: Path) -> None:
    text = "    bootstrap.servers: {}\n    auth:\n      {}\n"
    plan = pipeline(text.format(BROKERS, "msk-iam: {role.arn: '" + ROLE + "', external.id: hush-4711}"), tmp_path).plan
    assert [plugin.name for plugin in plan.plugins if plugin.name in ("kafka", "msk-iam")] == ["kafka", "msk-iam"]
    assert "hush-4711" not in repr(plan.source.config)
    assert "hush-4711" not in plan.redact("external id hush-4711")
    assert "msk-iam" in pipeline(text.format(BROKERS, "msk-iam"), tmp_path).plan.source.parts()[0].name
    for block, complaint in (
        ("msk-iam: {regoin: eu-west-1}", r"orders\.yaml:7 source\.kafka\.auth\.msk-iam\.regoin: unknown key 'regoin'"),
        ("msk-aim: {}", r"orders\.yaml:7 source\.kafka\.auth\.msk-aim: unknown auth 'msk-aim'"),
        ("{msk-iam: {}, other: {}}", r"orders\.yaml:6 source\.kafka\.auth: name exactly one auth"),
        ("msk-iam: 7", r"the options of 'msk-iam' must be a mapping"),
    ):
        with pytest.raises(Exception, match=complaint):
            pipeline(text.format(BROKERS, block), tmp_path)
    with pytest.raises(ConfigError, match=r"needs `bootstrap\.servers`"):
        pipeline("    auth: msk-iam\n", tmp_path)
    assert pipeline(f"    auth: {{msk-iam: {{cluster.arn: '{CLUSTER}'}}}}\n", tmp_path).plan.source.name == "kafka"


def test_json_schema() -> None:
    schema = pipeline_schema(registry())
    validator = Draft202012Validator({"$defs": schema["$defs"], "$ref": "#/$defs/source.kafka"})
    block = {"bootstrap.servers": BROKERS, "subscribe": "orders"}
    valid_blocks: list[Any] = [{"msk-iam": {"region": "eu-west-1"}}, {"msk-iam": None}, "msk-iam"]
    for auth in valid_blocks:
        assert validator.is_valid({**block, "auth": auth}), auth
    for auth in ({"msk-iam": {"regoin": "eu-west-1"}}, {"msk-aim": {}}, {"msk-iam": {"network": "moon"}}):
        assert not validator.is_valid({**block, "auth": auth}), auth


class Cluster:
    """Response of AWS for a cluster, or its error code."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.answer: dict[str, str] | str = {}
        self.requests: list[dict[str, Any]] = []

        def call(client: Any, operation: str, parameters: dict[str, Any]) -> dict[str, str]:
            self.requests.append({"region": client.meta.region_name, "operation": operation, **parameters})
            if isinstance(self.answer, str):
                raise ClientError({"Error": {"Code": self.answer, "Message": "no"}}, operation)
            return self.answer

        monkeypatch.setattr("botocore.client.BaseClient._make_api_call", call)


@pytest.mark.parametrize(
    ("network", "brokers"),
    [("private", "b-1:9098,b-2:9098"), ("public", "b-1-public:9198"), ("vpc", "b-1.scram:14001")],
)
def test_brokers_of_a_cluster(monkeypatch: pytest.MonkeyPatch, network: str, brokers: str) -> None:
    cluster = Cluster(monkeypatch)
    cluster.answer = {
        "BootstrapBrokerStringSaslIam": "b-1:9098,b-2:9098",
        "BootstrapBrokerStringPublicSaslIam": "b-1-public:9198",
        "BootstrapBrokerStringVpcConnectivitySaslIam": "b-1.scram:14001",
        "BootstrapBrokerStringTls": "b-1:9094",
    }
    auth = MskIam({"cluster.arn": CLUSTER, "network": network})
    kafka = KafkaSource(subscribe="orders", auth=auth)
    assert kafka._options(())["kafka.bootstrap.servers"] == brokers
    assert [*kafka._options(())]  # the second call sends no request
    assert cluster.requests == [{"region": "eu-central-1", "operation": "GetBootstrapBrokers", "ClusterArn": CLUSTER}]


def test_cluster_without_iam_brokers(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(monkeypatch)
    auth = MskIam({"cluster.arn": CLUSTER})

    def config_error() -> str:
        with pytest.raises(ConfigError) as caught:
            auth.brokers()
        return str(caught.value)

    cluster.answer = {"BootstrapBrokerStringPublicSaslIam": "b:9198"}
    message = config_error()
    assert f"cluster {CLUSTER}: the cluster has no brokers with IAM in the network 'private'" in message
    assert "set `network: public`" in message
    cluster.answer = {"BootstrapBrokerStringTls": "b:9094", "BootstrapBrokerString": "b:9092"}
    assert "the cluster has no brokers with IAM; it has Plaintext, Tls" in config_error()
    cluster.answer = {}
    assert "it has none" in config_error()
    cluster.answer = "AccessDeniedException"
    assert "allow kafka:GetBootstrapBrokers to this role or user" in config_error()
    cluster.answer = "ExpiredTokenException"
    assert "the session token has expired" in config_error()
    cluster.answer = "NotFoundException"
    assert "NotFoundException" in config_error()


def test_check_without_connect_sends_no_request(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(monkeypatch)
    for plugin in with_parts([KafkaSource(subscribe="orders", auth=MskIam({"cluster.arn": CLUSTER}))]):
        plugin.check()
        plugin.session_conf()
    assert cluster.requests == []


def read_token(token: str) -> dict[str, str]:
    url = urlsplit(base64.urlsafe_b64decode(token + "==").decode())
    return {"host": url.netloc, **{name: values[0] for name, values in parse_qs(url.query).items()}}


def test_token_for_python_clients(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    token, end = MskIam().token(BROKERS)
    message = read_token(token)
    assert message["host"] == "kafka.eu-west-1.amazonaws.com"
    assert message["Action"] == "kafka-cluster:Connect"
    assert message["X-Amz-Credential"].startswith("AKIDEXAMPLE/")
    assert message["X-Amz-Credential"].endswith("/eu-west-1/kafka-cluster/aws4_request")
    assert (message["X-Amz-Expires"], message["User-Agent"]) == ("900", "headrace")
    assert 880 < end - time.time() <= 900
    (tmp_path / "credentials").write_text("[etl]\naws_access_key_id = AKIDETL\naws_secret_access_key = x\n")
    assert read_token(MskIam(profile="etl").token(BROKERS)[0])["X-Amz-Credential"].startswith("AKIDETL/")
    with moto.mock_aws():
        assumed = read_token(MskIam({"role.arn": ROLE, "external.id": "x-1"}).token(BROKERS)[0])
    assert assumed["X-Amz-Credential"].startswith("ASIA")
    assert "X-Amz-Security-Token" in assumed
    with pytest.raises(ConfigError, match="unknown profile 'nobody'"):
        MskIam(profile="nobody").token(BROKERS)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    with pytest.raises(ConfigError, match="no AWS credentials found") as caught:
        MskIam().token(BROKERS)
    assert "AWS_WEB_IDENTITY_TOKEN_FILE" in str(caught.value)


def write_keys(folder: Path, minutes: float) -> None:
    """Write a profile with a program that returns keys which end in some minutes."""
    end = datetime.now(UTC) + timedelta(minutes=minutes)
    keys = {"Version": 1, "AccessKeyId": "AKIDSHORT", "SecretAccessKey": "x", "SessionToken": "t"}
    (folder / "keys.json").write_text(json.dumps({**keys, "Expiration": end.strftime("%Y-%m-%dT%H:%M:%SZ")}))
    (folder / "config").write_text(f"[profile short]\ncredential_process = /bin/cat {folder}/keys.json\n")


@pytest.mark.parametrize("minutes", [1, 7, 14])
def test_token_ends_with_its_credentials(tmp_path: Path, minutes: float) -> None:
    write_keys(tmp_path, minutes)
    token, end = MskIam(profile="short").token(BROKERS)
    assert 60 * minutes - 10 < end - time.time() <= 60 * minutes
    assert 60 * minutes - 10 < int(read_token(token)["X-Amz-Expires"]) <= 60 * minutes


def test_token_of_keys_with_a_later_end_has_the_longest_lifetime(tmp_path: Path) -> None:
    write_keys(tmp_path, 60)
    token, end = MskIam(profile="short").token(BROKERS)
    assert 880 < end - time.time() <= 900
    assert read_token(token)["X-Amz-Expires"] == "900"


def test_token_of_a_role_ends_with_its_session(monkeypatch: pytest.MonkeyPatch) -> None:
    end = datetime.now(UTC) + timedelta(minutes=12)
    keys = {"access_key": "ASIA", "secret_key": "x", "token": "t", "expiry_time": end.isoformat()}
    monkeypatch.setattr(Identity, "_assume", lambda _: keys)
    assert abs(MskIam({"role.arn": ROLE}).token(BROKERS)[1] - end.timestamp()) <= 1


def test_expired_credentials_sign_no_token(tmp_path: Path) -> None:
    write_keys(tmp_path, -1)
    with pytest.raises(ConfigError, match="the credentials have expired"):
        MskIam(profile="short").token(BROKERS)


def test_throttled_role_is_retriable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace_aws.clients._ATTEMPTS", 1)
    cluster = Cluster(monkeypatch)
    for cluster.answer in ("Throttling", "LimitExceededException", "ServiceUnavailable", "IDPCommunicationError"):
        with pytest.raises(RetriableError, match="AWS is busy"):
            MskIam({"role.arn": ROLE}).token(BROKERS)
        with pytest.raises(RetriableError, match="AWS is busy"):
            MskIam({"cluster.arn": CLUSTER}).brokers()


@pytest.mark.parametrize(
    "cause",
    [
        "Rate exceeded (Service: AWSSecurityTokenService; Status Code: 400; Error Code: Throttling; Request ID: 1)",
        "Service is unavailable (Service: Sts, Status Code: 503, Request ID: 1)",
    ],
)
def test_throttled_role_of_the_jvm_is_retriable(cause: str) -> None:
    text = (
        "org.apache.kafka.common.errors.SaslAuthenticationException: An error: (java.security.PrivilegedActionException) "
        "Caused by: java.io.IOException: Failed to find AWS IAM Credentials [Caused by "
        f"software.amazon.msk.auth.iam.internals.MSKCredentialProvider: {cause}]"
    )
    error = MskIam({"role.arn": ROLE}).explain(RuntimeError(text))
    assert isinstance(error, RetriableError)
    assert f"AWS did not return credentials for {ROLE}" in error.what


def test_session_without_region_cannot_sign_a_token() -> None:
    text = (
        "org.apache.kafka.common.KafkaException: javax.security.auth.login.LoginException: "
        "An internal error occurred while retrieving token from callback handler"
    )
    error = MskIam({"region": "eu-west-1", "mechanism": "OAUTHBEARER"}).explain(RuntimeError(text))
    assert isinstance(error, ConfigError)
    assert "auth msk-iam: the AWS client of the JVM cannot sign a token for this process" in str(error)
    assert "fix: set AWS_REGION for the driver and the executors" in str(error)


def test_role_that_cannot_be_assumed(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(monkeypatch)
    cluster.answer = "AccessDenied"
    with pytest.raises(ConfigError, match=f"role {ROLE}: the role cannot be assumed") as caught:
        MskIam({"role.arn": ROLE, "external.id": "hush-4711"}).token(BROKERS)
    assert not isinstance(caught.value, LoginError)
    assert "allow the caller in the role's trust policy" in str(caught.value)
    assert "hush-4711" not in str(caught.value)
    (requests,) = cluster.requests
    assert (requests["RoleSessionName"], requests["ExternalId"], requests["region"]) == (
        "headrace",
        "hush-4711",
        "eu-west-1",
    )


def test_only_cluster_arn_requires_boto3(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "boto3", None)
    assert login()["security.protocol"] == "SASL_SSL"
    with pytest.raises(ConfigError, match="AWS kafka requires boto3"):
        MskIam({"cluster.arn": CLUSTER}).brokers()
