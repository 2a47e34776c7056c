"""The kit of observers for `otel`, and wrong environments."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from headrace_otel.otel_observer import Otel
from tests.plugins.otel.doubles import OtelInMemory

from headrace.sdk import ConfigError
from headrace.testing.observers import ObserverConformance


class TestOtel(ObserverConformance):
    plugin_class = Otel
    refused = ({"max.tables": 0},)

    @pytest.fixture(autouse=True)
    def _without_collector(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for signal in ("TRACES", "METRICS"):
            monkeypatch.setenv(f"OTEL_{signal}_EXPORTER", "none")

    def config(self, folder: Path) -> Mapping[str, Any]:
        return {"max.tables": 100}


class TestOtelInMemory(TestOtel):
    plugin_class = OtelInMemory

    def read_applied(self, observer: OtelInMemory) -> int:
        points = observer.read_metrics().get("headrace.table.rows", {})
        return int(sum(point.value for about, point in points.items() if ("outcome", "applied") in about))


def test_unknown_exporter(monkeypatch: pytest.MonkeyPatch) -> None:
    Otel().check()
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "zipkin")
    with pytest.raises(ConfigError, match="otel: OTEL_TRACES_EXPORTER is not one of otlp, console, none"):
        Otel().check()
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    Otel().check()


def test_other_protocol_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    assert list(Otel().warnings()) == []
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
    assert list(Otel().warnings()) == [
        "OTEL_EXPORTER_OTLP_PROTOCOL is ignored: the protocol is http/protobuf, by default on port 4318"
    ]


def test_package_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace_otel.otel_observer.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"opentelemetry-sdk is not installed\n  fix: pip install 'headrace\[otel\]'"):
        Otel().check()
