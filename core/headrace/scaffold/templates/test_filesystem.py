# mypy: disable-error-code="import-not-found, misc"
from pathlib import Path

from headrace_example import Example

from headrace import Pipeline
from headrace.testing.plugins import PluginConformance


class TestExample(PluginConformance):
    """Tests for every plugin."""

    plugin_class = Example

    def config(self, folder: Path) -> dict[str, str]:
        return {}


def test_an_address_selects_the_file_system() -> None:
    file = {"name": "people", "source": {"files": {"path": "in", "format": "json"}}, "sink": "console"}
    people = Pipeline.from_dict({**file, "checkpoint": "example://lake/checkpoint"})
    assert [system.name for system in people.plan.file_systems] == ["example"]


def test_rejected_credentials_are_explained() -> None:
    error = Example().explain(RuntimeError("GoogleJsonResponseException: 403 Forbidden"))
    assert "gcloud auth application-default login" in str(error)
