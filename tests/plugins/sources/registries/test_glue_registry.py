"""AWS Glue schema registry, emulated by moto: choice of the region, and number of requests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import boto3
import moto
import pytest
from botocore.stub import Stubber

from headrace import ConfigError, DataError, HeadraceError, RetriableError
from headrace.errors import LoginError
from headrace_sources.registries.glue_registry import GlueRegistry

SCHEMA = '{"type": "string"}'


@pytest.fixture(autouse=True)
def version(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[str]:
    """Create a schema version in Ireland, and an environment with keys and without a region."""
    for name in ("AWS_PROFILE", "AWS_DEFAULT_REGION", "AWS_REGION"):
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    config = tmp_path / "config"
    config.write_text("[profile ireland]\nregion = eu-west-1\n[profile ohio]\nregion = us-east-2\n")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(config))
    with moto.mock_aws():
        glue = boto3.client("glue", region_name="eu-west-1")
        glue.create_registry(RegistryName="shop")
        registry = {"RegistryId": {"RegistryName": "shop"}, "SchemaName": "row", "Compatibility": "NONE"}
        yield glue.create_schema(**registry, DataFormat="AVRO", SchemaDefinition=SCHEMA)["SchemaVersionId"]


@pytest.mark.parametrize(
    "environment",
    [
        {"AWS_REGION": "eu-west-1"},
        {"AWS_DEFAULT_REGION": "eu-west-1"},
        {"AWS_PROFILE": "ireland"},
        {"AWS_REGION": "eu-west-1", "AWS_DEFAULT_REGION": "us-east-2", "AWS_PROFILE": "ohio"},
    ],
)
def test_region_comes_from_the_environment(
    version: str, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert GlueRegistry(None, None).fetch_schema(f"glue/{version}", "AVRO") == SCHEMA
    with pytest.raises(DataError, match="no such schema"):
        GlueRegistry("us-east-2", None).fetch_schema(f"glue/{version}", "AVRO")


def test_no_region(version: str) -> None:
    with pytest.raises(ConfigError, match=r"no AWS region is set\n  fix: add `region: eu-west-1` .* or set AWS_REGION"):
        GlueRegistry(None, None).fetch_schema(f"glue/{version}", "AVRO")


def test_credentials_that_appear_later_are_used(version: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    registry = GlueRegistry("eu-west-1", None)
    with pytest.raises(ConfigError, match="no AWS credentials found"):
        registry.fetch_schema(f"glue/{version}", "AVRO")
    (tmp_path / "credentials").write_text("[default]\naws_access_key_id = a\naws_secret_access_key = b\n")
    expired = boto3.client("glue", region_name="eu-west-1")
    monkeypatch.setattr(registry, "_client", expired)
    with Stubber(expired) as stubber:
        stubber.add_client_error("get_schema_version", "ExpiredTokenException")
        with pytest.raises(LoginError, match="the session token has expired"):
            registry.fetch_schema(f"glue/{version}", "AVRO")
    assert registry.fetch_schema(f"glue/{version}", "AVRO") == SCHEMA


def test_schema_version_is_requested_once(version: str) -> None:
    registry = GlueRegistry("eu-west-1", None)
    assert registry.fetch_schema(f"glue/{version}", "AVRO") == SCHEMA
    boto3.client("glue", region_name="eu-west-1").delete_registry(RegistryId={"RegistryName": "shop"})
    assert registry.fetch_schema(f"glue/{version}", "AVRO") == SCHEMA
    with pytest.raises(DataError, match="no such schema"):
        GlueRegistry("eu-west-1", None).fetch_schema(f"glue/{version}", "AVRO")


@pytest.mark.parametrize(
    ("code", "kind", "expected"),
    [
        ("ThrottlingException", RetriableError, "AWS is busy"),
        ("LimitExceededException", RetriableError, "AWS is busy"),
        ("InternalServiceException", RetriableError, "AWS is busy"),
        ("AccessDeniedException", ConfigError, "allow glue:GetSchemaVersion to this role or user"),
        ("UnrecognizedClientException", ConfigError, "AWS rejected the credentials"),
        ("ValidationException", ConfigError, "AWS rejected the request"),
    ],
)
def test_errors(
    version: str, monkeypatch: pytest.MonkeyPatch, code: str, kind: type[HeadraceError], expected: str
) -> None:
    client = boto3.client("glue", region_name="eu-west-1")
    monkeypatch.setattr("headrace_sources.registries.glue_registry._make_client", lambda *_: client)
    with Stubber(client) as stubber:
        stubber.add_client_error("get_schema_version", code, "no")
        with pytest.raises(kind, match=expected) as caught:
            GlueRegistry("eu-west-1", None).fetch_schema(f"glue/{version}", "AVRO")
    assert caught.value.where == f"AWS Glue, version {version}"


def test_unknown_profile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_PROFILE", "nobody")
    with pytest.raises(ConfigError, match="unknown profile 'nobody'"):
        GlueRegistry("eu-west-1", None).fetch_schema("glue/1", "AVRO")
