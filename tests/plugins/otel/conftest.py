"""Environment of OpenTelemetry in tests."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from tests.plugins.otel.doubles import OtlpServer


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("OTEL_")]:
        monkeypatch.delenv(name)


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[OtlpServer]:
    with OtlpServer() as server:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", server.endpoint_url)
        monkeypatch.setenv("OTEL_METRIC_EXPORT_INTERVAL", "60000")
        yield server
