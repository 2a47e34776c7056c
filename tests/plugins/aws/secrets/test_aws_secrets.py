"""Tests of references to AWS secrets. moto has Secrets Manager and Parameter Store; a local server returns other errors."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import boto3
import moto
import pytest
from tests.support.local_server import LocalServer

from headrace import ConfigError, Pipeline
from headrace.config.references import Resolver
from headrace.registry.plugin_registry import registry
from headrace.sdk.secrets import CACHE_SECONDS, clear_cache

HIDDEN = "canary-4711"


@pytest.fixture(autouse=True)
def aws(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Credentials and a region, and nothing of this machine's own."""
    clear_cache()
    for name in ("AWS_PROFILE", "AWS_DEFAULT_REGION", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "example")
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))


def resolve(text: str) -> str:
    """As in a pipeline file."""
    providers = dict(registry().all("secret"))
    return str(Resolver(providers).resolve({"password": text}, lambda _: "pipeline.yaml:1")["password"])


def refusal(text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        resolve(text)
    assert HIDDEN not in str(caught.value)
    return str(caught.value)


@pytest.fixture
def stored() -> Iterator[str]:
    """Secrets and parameters in a region; gives the ARN of a secret in another."""
    with moto.mock_aws():
        manager = boto3.client("secretsmanager", region_name="eu-west-1")
        values = {"user": "headrace", "password": HIDDEN, "port": 5432, "tls": True}
        manager.create_secret(Name="demo/postgres", SecretString=json.dumps(values))
        manager.create_secret(Name="plain", SecretString=HIDDEN)
        manager.create_secret(Name="list", SecretString=json.dumps([HIDDEN]))
        manager.create_secret(Name="bytes", SecretBinary=HIDDEN.encode())
        store = boto3.client("ssm", region_name="eu-west-1")
        store.put_parameter(Name="/demo/password", Value=HIDDEN, Type="SecureString")
        afar = boto3.client("secretsmanager", region_name="us-east-2")
        yield afar.create_secret(Name="afar", SecretString=json.dumps({"a:b": "there"}))["ARN"]


def test_values(stored: str) -> None:
    assert resolve("${secretManager:plain}") == HIDDEN
    assert resolve("${secretManager:demo/postgres:password}") == HIDDEN
    assert resolve("${secretManager:demo/postgres:port}/${secretManager:demo/postgres:tls}") == "5432/true"
    assert json.loads(resolve("${secretManager:demo/postgres}"))["user"] == "headrace"
    assert resolve("${ssm:/demo/password}") == HIDDEN
    # An ARN says the region, and a key may have a colon.
    assert resolve(f"${{secretManager:{stored}:a:b}}") == "there"
    assert json.loads(resolve(f"${{secretManager:{stored}}}")) == {"a:b": "there"}
    parameter = "arn:aws:ssm:eu-west-1:123456789012:parameter/demo/password"
    assert resolve(f"${{ssm:{parameter}}}") == HIDDEN


def test_a_secret_is_asked_for_once_in_five_minutes(stored: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert resolve("${secretManager:plain}") == HIDDEN
    boto3.client("secretsmanager", region_name="eu-west-1").put_secret_value(SecretId="plain", SecretString="rotated")
    assert resolve("${secretManager:plain}") == HIDDEN
    later = time.monotonic() + CACHE_SECONDS + 1
    monkeypatch.setattr(time, "monotonic", lambda: later)
    assert resolve("${secretManager:plain}") == "rotated"


def test_a_pipeline_whose_login_was_refused_does_not_wait_for_it(stored: str, tmp_path: Path) -> None:
    console = {"name": "orders", "sink": {"console": {}}, "checkpoint": str(tmp_path / "checkpoint")}
    built = Pipeline.from_dict({**console, "source": {"files": {"path": "${secretManager:plain}", "format": "json"}}})
    boto3.client("secretsmanager", region_name="eu-west-1").put_secret_value(SecretId="plain", SecretString="rotated")
    assert resolve("${secretManager:plain}") == HIDDEN
    assert built.current_plan.rotate(built.plan, None)  # type: ignore[arg-type]  # a session is for sources that plan ranges
    assert built.plan.source.config.path == "rotated"


def test_what_is_not_there(stored: str) -> None:
    assert "pipeline.yaml:1: ${secretManager:nothing}: Secrets Manager, eu-west-1: no such secret 'nothing'" in (
        refusal("${secretManager:nothing}")
    )
    assert "parameter store, eu-west-1: no such parameter '/demo/none'" in refusal("${ssm:/demo/none}")
    said = refusal("${secretManager:demo/postgres:pasword}")
    assert "the secret 'demo/postgres' has no key 'pasword'; did you mean 'password'?" in said
    assert "the secret 'bytes' is binary" in refusal("${secretManager:bytes}")
    for name in ("plain", "list"):
        assert f"the secret '{name}' is not a JSON object" in refusal(f"${{secretManager:{name}:key}}")


class Played(LocalServer):
    """Server that returns the same error to every request."""

    def __init__(self) -> None:
        super().__init__(_Handler)
        self.status, self.body = 400, b""

    def refuse(self, code: str, status: int = 400) -> None:
        self.status, self.body = status, json.dumps({"__type": code, "message": f"{code}, it says"}).encode()


class _Handler(BaseHTTPRequestHandler):
    server: Played

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(self.server.status)
        self.send_header("Content-Length", str(len(self.server.body)))
        self.end_headers()
        self.wfile.write(self.server.body)

    def log_message(self, *_: Any) -> None: ...


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[Played]:
    with Played() as server:
        monkeypatch.setenv("AWS_ENDPOINT_URL", server.endpoint_url)
        yield server


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("AccessDeniedException", "allow ssm:GetParameter to this role or user"),
        ("ExpiredTokenException", "the session token has expired; log in again"),
        ("UnrecognizedClientException", "AWS rejected the credentials: UnrecognizedClientException"),
        ("InvalidSignatureException", "check that the access key, its secret and its session token belong together"),
        ("InvalidKeyId", "AWS rejected the request: An error occurred (InvalidKeyId)"),
    ],
)
def test_a_refusal_says_what_to_do(service: Played, code: str, said: str) -> None:
    service.refuse(code)
    found = refusal("${ssm:/demo/password}")
    assert "pipeline.yaml:1: ${ssm:/demo/password}: " in found
    assert said in found


def test_a_service_that_is_busy_or_is_none(service: Played, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace_aws.clients._ATTEMPTS", 1)
    service.refuse("ThrottlingException")
    assert "AWS is busy" in refusal("${ssm:/demo/password}")
    service.refuse("InternalServerError", 500)
    assert "AWS is busy" in refusal("${ssm:/demo/password}")
    service.status, service.body = 200, f"<html>{HIDDEN}</html>".encode()
    assert "the response is not from AWS; check the endpoint (AWS_ENDPOINT_URL)" in refusal("${ssm:/demo/password}")
    service.server_close()
    assert "AWS does not respond" in refusal("${ssm:/demo/password}")


def test_nobody_said_who_asks_and_where(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    said = refusal("${ssm:/demo/password}")
    assert "no AWS credentials found" in said
    assert "AWS_WEB_IDENTITY_TOKEN_FILE, the profile default of ~/.aws" in said
    monkeypatch.setenv("AWS_PROFILE", "nobody")
    assert "unknown profile 'nobody'" in refusal("${ssm:/demo/password}")
    monkeypatch.delenv("AWS_PROFILE")
    monkeypatch.delenv("AWS_REGION")
    assert "no region is set; set AWS_REGION" in refusal("${ssm:/demo/password}")
