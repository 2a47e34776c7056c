"""`headrace connect deploy --target msk-connect`. botocore's Stubber answers: no server imitates MSK Connect."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.stub import Stubber
from click.testing import CliRunner, Result
from tests.plugins.connect.conftest import CONFIG

from headrace.cli.main import cli
from headrace_connect import msk_connect

Write = Callable[..., Path]
ARN = "arn:aws:kafkaconnect:eu-west-1:123456789012:connector/shop/0a1b"
MSK = {
    "region": "eu-west-1",
    "capacity": {"provisionedCapacity": {"mcuCount": 1, "workerCount": 1}},
    "kafkaCluster": {"apacheKafkaCluster": {"bootstrapServers": "b-1:9098", "vpc": {"subnets": ["subnet-1"]}}},
    "kafkaClusterClientAuthentication": {"authenticationType": "IAM"},
    "kafkaClusterEncryptionInTransit": {"encryptionType": "TLS"},
    "kafkaConnectVersion": "3.7.x",
    "plugins": [
        {"customPlugin": {"customPluginArn": "arn:aws:kafkaconnect:eu-west-1:1:custom-plugin/d/1", "revision": 1}}
    ],
    "serviceExecutionRoleArn": "arn:aws:iam::123456789012:role/connect",
}
OPTIONS = {**CONFIG, "topic.prefix": "shop"}


def deploy(file: Path, *options: str) -> Result:
    return CliRunner().invoke(cli, ["connect", "deploy", str(file), "--target", "msk-connect", *options])


@pytest.fixture
def stub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stubber]:
    client = boto3.client("kafkaconnect", "eu-west-1", aws_access_key_id="example", aws_secret_access_key="example")
    monkeypatch.setattr(msk_connect, "make_client", lambda *_, **__: client)
    with Stubber(client) as stubber:
        yield stubber
        stubber.assert_no_pending_responses()


def add_list(stub: Stubber, *names: str, token: str | None = None) -> None:
    items = [{"connectorName": name, "connectorArn": ARN} for name in names]
    stub.add_response("list_connectors", {"connectors": items}, {"connectorNamePrefix": "shop"})


def describe(options: dict[str, str], state: str = "RUNNING", **more: Any) -> dict[str, Any]:
    identity = {"connectorArn": ARN, "connectorName": "shop", "currentVersion": "K1"}
    return {**identity, "connectorState": state, "connectorConfiguration": options, **more}


def complete(file: Path, stub: Stubber) -> dict[str, Any]:
    """Return the request that ``--dry-run`` prints."""
    add_list(stub)
    result = deploy(file, "--dry-run")
    assert result.exit_code == 0, result.output
    request: dict[str, Any] = json.loads(result.stdout[result.stdout.index("\n{") :])
    return request


def test_new_connector(stub: Stubber, write_pipeline: Write) -> None:
    file = write_pipeline("http://localhost:8083", msk=MSK)
    request = complete(file, stub)
    assert request.keys() == {*MSK, "connectorName", "connectorConfiguration"} - {"region"}
    assert OPTIONS.items() <= request["connectorConfiguration"].items()
    add_list(stub, "shop-2")
    stub.add_response("create_connector", {"connectorName": "shop", "connectorState": "CREATING"}, request)
    result = deploy(file)
    assert (result.exit_code, result.stdout.splitlines()[0]) == (0, "connector shop in MSK Connect: new")
    assert result.stdout.endswith("connector shop in MSK Connect: CREATING\n")


def test_changed_connector(stub: Stubber, write_pipeline: Write) -> None:
    file = write_pipeline("http://localhost:8083", msk=MSK)
    options = complete(file, stub)["connectorConfiguration"]
    add_list(stub, "shop-2", "shop")
    stub.add_response("describe_connector", describe({**options, "tasks.max": "2"}), {"connectorArn": ARN})
    expected = {"connectorArn": ARN, "currentVersion": "K1", "connectorConfiguration": options}
    stub.add_response("update_connector", {"connectorArn": ARN, "connectorState": "UPDATING"}, expected)
    result = deploy(file)
    assert result.stdout.splitlines() == [
        "connector shop in MSK Connect: changed",
        "  ~ tasks.max: 2 -> 1",
        "connector shop in MSK Connect: UPDATING",
    ]
    add_list(stub, "shop")
    stub.add_response("describe_connector", describe(options), {"connectorArn": ARN})
    assert deploy(file).stdout == "connector shop in MSK Connect: unchanged\nconnector shop in MSK Connect: RUNNING\n"


def test_connector_of_another_class(stub: Stubber, write_pipeline: Write) -> None:
    file = write_pipeline("http://localhost:8083", msk=MSK)
    options = complete(file, stub)["connectorConfiguration"]
    other = describe({"connector.class": "io.confluent.connect.s3.S3SinkConnector"})
    for _ in range(2):
        add_list(stub, "shop")
        stub.add_response("describe_connector", other, {"connectorArn": ARN})
    assert deploy(file).exit_code == 1  # nobody answers the question
    expected = {"connectorArn": ARN, "currentVersion": "K1", "connectorConfiguration": options}
    stub.add_response("update_connector", {"connectorArn": ARN, "connectorState": "UPDATING"}, expected)
    assert deploy(file, "--yes").exit_code == 0


def test_plain_password_is_not_printed(stub: Stubber, write_pipeline: Write) -> None:
    request = complete(write_pipeline("http://localhost:8083", {"database.password": "hunter2"}, msk=MSK), stub)
    assert request["connectorConfiguration"]["database.password"] == "******"


def test_failed_connector(stub: Stubber, write_pipeline: Write) -> None:
    add_list(stub, "shop")
    reason = {"stateDescription": {"code": "UserError", "message": "no route to db"}}
    stub.add_response("describe_connector", describe({}, "FAILED", **reason), {"connectorArn": ARN})
    result = deploy(write_pipeline("http://localhost:8083", msk=MSK))
    assert (result.exit_code, "the connector failed: no route to db" in result.stderr) == (6, True)


@pytest.mark.parametrize(("key", "option"), [("connectorName", "name"), ("connectorConfiguration", "config")])
def test_parameter_that_the_block_has(write_pipeline: Write, key: str, option: str) -> None:
    result = deploy(write_pipeline("http://localhost:8083", msk={**MSK, key: "x"}))
    assert (result.exit_code, f"`{key}` is not a parameter of `msk:`" in result.stderr) == (2, True)
    assert f"remove it: `{option}:` in `connect:` has its value" in result.stderr


@pytest.mark.usefixtures("stub")
def test_wrong_parameters(write_pipeline: Write) -> None:
    result = deploy(write_pipeline("http://localhost:8083", msk={**MSK, "capacity": "big"}))
    assert (result.exit_code, "the parameters are not valid: Invalid type for parameter capacity" in result.stderr) == (
        2,
        True,
    )
    assert "correct `msk:` in `connect:`" in result.stderr


def test_answer_of_another_server(stub: Stubber, write_pipeline: Write) -> None:
    stub.add_response("list_connectors", {}, {"connectorNamePrefix": "shop"})
    result = deploy(write_pipeline("http://localhost:8083", msk=MSK))
    assert (result.exit_code, "the response is not from AWS" in result.stderr) == (2, True)


def test_denied_request(stub: Stubber, write_pipeline: Write) -> None:
    stub.add_client_error("list_connectors", "AccessDeniedException", "not allowed", 403)
    result = deploy(write_pipeline("http://localhost:8083", msk=MSK))
    assert (result.exit_code, "allow kafkaconnect:ListConnectors to this role or user" in result.stderr) == (2, True)


def test_block_without_parameters(write_pipeline: Write) -> None:
    result = deploy(write_pipeline("http://localhost:8083"))
    assert (result.exit_code, "add `msk:` to `connect:`" in result.stderr) == (2, True)
