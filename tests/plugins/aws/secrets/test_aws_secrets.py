"""References to AWS secrets. moto has Secrets Manager and Parameter Store; a local server returns other errors."""

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

from headrace import ConfigError, HeadraceError, Pipeline, RetriableError
from headrace.config.references import Resolver
from headrace.registry.plugin_registry import registry
from headrace.secret_cache import CACHE_SECONDS, clear_cache

HIDDEN = "canary-4711"


@pytest.fixture(autouse=True)
def aws(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Set credentials and a region, and isolate the test from the machine's AWS configuration."""
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
    """Resolve a value as in a pipeline file."""
    providers = dict(registry().all("secret"))
    return str(Resolver(providers).resolve({"password": text}, lambda _: "pipeline.yaml:1")["password"])


def error_message(text: str, kind: type[HeadraceError] = ConfigError) -> str:
    with pytest.raises(kind) as caught:
        resolve(text)
    assert HIDDEN not in str(caught.value)
    return str(caught.value)


@pytest.fixture
def stored() -> Iterator[str]:
    """Create secrets and parameters in one region; return the ARN of a secret in another region."""
    with moto.mock_aws():
        manager = boto3.client("secretsmanager", region_name="eu-west-1")
        values = {"user": "headrace", "password": HIDDEN, "port": 5432, "tls": True}
        manager.create_secret(Name="demo/postgres", SecretString=json.dumps(values))
        manager.create_secret(Name="plain", SecretString=HIDDEN)
        manager.create_secret(Name="list", SecretString=json.dumps([HIDDEN]))
        manager.create_secret(Name="bytes", SecretBinary=HIDDEN.encode())
        store = boto3.client("ssm", region_name="eu-west-1")
        store.put_parameter(Name="/demo/password", Value=HIDDEN, Type="SecureString")
        other_region = boto3.client("secretsmanager", region_name="us-east-2")
        yield other_region.create_secret(Name="afar", SecretString=json.dumps({"a:b": "there"}))["ARN"]


def test_values(stored: str) -> None:
    assert resolve("${secretManager:plain}") == HIDDEN
    assert resolve("${secretManager:demo/postgres:password}") == HIDDEN
    assert resolve("${secretManager:demo/postgres:port}/${secretManager:demo/postgres:tls}") == "5432/true"
    assert json.loads(resolve("${secretManager:demo/postgres}"))["user"] == "headrace"
    assert resolve("${ssm:/demo/password}") == HIDDEN
    # An ARN contains the region, and a key may contain a colon.
    assert resolve(f"${{secretManager:{stored}:a:b}}") == "there"
    assert json.loads(resolve(f"${{secretManager:{stored}}}")) == {"a:b": "there"}
    parameter = "arn:aws:ssm:eu-west-1:123456789012:parameter/demo/password"
    assert resolve(f"${{ssm:{parameter}}}") == HIDDEN


def test_secret_is_cached_for_five_minutes(stored: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert resolve("${secretManager:plain}") == HIDDEN
    boto3.client("secretsmanager", region_name="eu-west-1").put_secret_value(SecretId="plain", SecretString="rotated")
    assert resolve("${secretManager:plain}") == HIDDEN
    later = time.monotonic() + CACHE_SECONDS + 1
    monkeypatch.setattr(time, "monotonic", lambda: later)
    assert resolve("${secretManager:plain}") == "rotated"


def test_rejected_credentials_bypass_the_cache(stored: str, tmp_path: Path) -> None:
    console = {"name": "orders", "sink": {"console": {}}, "checkpoint": str(tmp_path / "checkpoint")}
    built = Pipeline.from_dict({**console, "source": {"files": {"path": "${secretManager:plain}", "format": "json"}}})
    boto3.client("secretsmanager", region_name="eu-west-1").put_secret_value(SecretId="plain", SecretString="rotated")
    assert resolve("${secretManager:plain}") == HIDDEN
    assert built.current_plan.rotate(built.plan, None)  # type: ignore[arg-type]  # only sources that plan ranges use the session
    assert built.plan.source.config.path == "rotated"


def test_missing_secrets(stored: str) -> None:
    assert "pipeline.yaml:1: ${secretManager:nothing}: Secrets Manager, eu-west-1: no such secret 'nothing'" in (
        error_message("${secretManager:nothing}")
    )
    assert "parameter store, eu-west-1: no such parameter '/demo/none'" in error_message("${ssm:/demo/none}")
    expected = error_message("${secretManager:demo/postgres:pasword}")
    assert "the secret 'demo/postgres' has no key 'pasword'; did you mean 'password'?" in expected
    assert "the secret 'bytes' is binary" in error_message("${secretManager:bytes}")
    for name in ("plain", "list"):
        assert f"the secret '{name}' is not a JSON object" in error_message(f"${{secretManager:{name}:key}}")


class FakeService(LocalServer):
    """Server that returns the same error to every request."""

    def __init__(self) -> None:
        super().__init__(_Handler)
        self.status, self.body = 400, b""

    def refuse(self, code: str, status: int = 400) -> None:
        self.status, self.body = status, json.dumps({"__type": code, "message": f"{code}, it says"}).encode()


class _Handler(BaseHTTPRequestHandler):
    server: FakeService

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(self.server.status)
        self.send_header("Content-Length", str(len(self.server.body)))
        self.end_headers()
        self.wfile.write(self.server.body)

    def log_message(self, *_: Any) -> None: ...


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeService]:
    with FakeService() as server:
        monkeypatch.setenv("AWS_ENDPOINT_URL", server.endpoint_url)
        yield server


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("AccessDeniedException", "allow ssm:GetParameter to this role or user"),
        ("ExpiredTokenException", "the session token has expired; log in again"),
        ("UnrecognizedClientException", "AWS rejected the credentials: UnrecognizedClientException"),
        ("InvalidSignatureException", "check that the access key, its secret and its session token belong together"),
        ("InvalidKeyId", "AWS rejected the request: An error occurred (InvalidKeyId)"),
    ],
)
def test_errors_state_a_fix(service: FakeService, code: str, expected: str) -> None:
    service.refuse(code)
    found = error_message("${ssm:/demo/password}")
    assert "pipeline.yaml:1: ${ssm:/demo/password}: " in found
    assert expected in found


def test_busy_or_invalid_service(service: FakeService, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace_aws.clients._ATTEMPTS", 1)
    for code, status in (("ThrottlingException", 400), ("LimitExceededException", 400), ("InternalServerError", 500)):
        service.refuse(code, status)
        assert "AWS is busy" in error_message("${ssm:/demo/password}", RetriableError)
    # A second reference that lacks a value needs a person.
    assert "AWS is busy" in error_message("${ssm:/demo/password} ${env:HEADRACE_NO_SUCH_VARIABLE}")
    service.status, service.body = 200, f"<html>{HIDDEN}</html>".encode()
    assert "the response is not from AWS; check the endpoint (AWS_ENDPOINT_URL)" in error_message(
        "${ssm:/demo/password}"
    )
    service.server_close()
    assert "AWS does not respond" in error_message("${ssm:/demo/password}", RetriableError)


def test_missing_credentials_and_region(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    expected = error_message("${ssm:/demo/password}")
    assert "no AWS credentials found" in expected
    assert "AWS_WEB_IDENTITY_TOKEN_FILE, the profile default of ~/.aws" in expected
    monkeypatch.setenv("AWS_PROFILE", "nobody")
    assert "unknown profile 'nobody'" in error_message("${ssm:/demo/password}")
    monkeypatch.delenv("AWS_PROFILE")
    monkeypatch.delenv("AWS_REGION")
    assert "no region is set; set AWS_REGION" in error_message("${ssm:/demo/password}")
