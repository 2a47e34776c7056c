"""The kit of observers for `openlineage`, and wrong configurations."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from headrace_openlineage.openlineage_observer import OpenLineage

from headrace.sdk import ConfigError
from headrace.testing.observers import ObserverConformance


class TestOpenLineage(ObserverConformance):
    plugin_class = OpenLineage
    refused = ({"namespace": ""}, {"running.interval": "soon"})

    @pytest.fixture(autouse=True)
    def _to_file(self, read_events: object) -> None:
        """Events are written to a file."""

    def config(self, folder: Path) -> Mapping[str, Any]:
        return {"namespace": "prod", "running.interval": "10 seconds"}


def test_namespace_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    assert OpenLineage().config.job_namespace == "default"
    monkeypatch.setenv("OPENLINEAGE_NAMESPACE", "prod")
    assert list(OpenLineage().notes()) == ["the jobs are in the namespace prod"]
    assert OpenLineage(namespace="own").config.job_namespace == "own"


def test_missing_configuration_is_a_warning(
    caplog: pytest.LogCaptureFixture, read_events: object, tmp_path: Path
) -> None:
    assert list(OpenLineage().warnings()) == []
    (tmp_path / "openlineage.yml").unlink()
    assert list(OpenLineage().warnings()) == [
        "the events are printed to stderr: set OPENLINEAGE_URL, or name a transport in openlineage.yml"
    ]
    assert caplog.text == ""


def test_wrong_configuration_is_reported_without_its_secret(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("OPENLINEAGE_URL", "user:canary-4711@host")
    with pytest.raises(
        ConfigError, match="the configuration of OpenLineage's client is not valid: ValueError"
    ) as caught:
        OpenLineage().check()
    assert "canary" not in str(caught.value)


def test_package_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace_openlineage.openlineage_observer.find_spec", lambda name: None)
    with pytest.raises(
        ConfigError, match=r"openlineage-python is not installed\n  fix: pip install 'headrace\[openlineage\]'"
    ):
        OpenLineage().check()
    assert list(OpenLineage().warnings()) == []
