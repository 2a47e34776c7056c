"""Fixtures of Glue (moto), and the session for the kits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from tests.support.glue import Glue, Refusing

from headrace_aws.glue import glue_client

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def glue() -> Iterator[Glue]:
    with Glue() as server:
        yield server


@pytest.fixture(scope="module")
def refusal_server() -> Iterator[Refusing]:
    with Refusing() as server:
        yield server


@pytest.fixture
def glue_login(glue: Glue, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys and a region, and not where Glue is."""
    for name, value in glue.environment.items():
        if name != "AWS_ENDPOINT_URL":
            monkeypatch.setenv(name, value)


@pytest.fixture
def database() -> str:
    return f"db_{uuid4().hex[:8]}"


@pytest.fixture
def glue_operations(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the operations that Glue receives."""
    operations: list[str] = []
    ask = glue_client.GlueClient._call

    def note(self: glue_client.GlueClient, operation: str, what: str, **parameters: Any) -> dict[str, Any]:
        operations.append(operation)
        return ask(self, operation, what, **parameters)

    monkeypatch.setattr(glue_client.GlueClient, "_call", note)
    return operations


@pytest.fixture(scope="session")
def headrace_spark(spark: SparkSession) -> SparkSession:
    """Return the session of headrace's tests, for the kit."""
    return spark
