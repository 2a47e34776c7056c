"""Fixtures of AWS Glue (moto), and the session for the conformance kits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest
from tests.support.glue import Glue, Refusing

from headrace_sinks.catalogs.glue import glue_client

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
def aws_credentials(glue: Glue, monkeypatch: pytest.MonkeyPatch) -> None:
    """Set credentials and a region, without an endpoint."""
    for name, value in glue.environment.items():
        if name != "AWS_ENDPOINT_URL":
            monkeypatch.setenv(name, value)


@pytest.fixture
def database() -> str:
    return f"db_{uuid4().hex[:8]}"


@pytest.fixture
def glue_operations(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that records the operations of each request to Glue."""
    operations: list[str] = []
    call = glue_client.GlueClient._call

    def record_call(self: glue_client.GlueClient, operation: str, subject: str, **parameters: Any) -> dict[str, Any]:
        operations.append(operation)
        return call(self, operation, subject, **parameters)

    monkeypatch.setattr(glue_client.GlueClient, "_call", record_call)
    return operations


@pytest.fixture(scope="session")
def headrace_spark(spark: SparkSession) -> SparkSession:
    """Return the session of headrace's tests, for the kit."""
    return spark
