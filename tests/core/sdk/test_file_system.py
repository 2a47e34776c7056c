"""File system from docs/plugins.md, installed as a third-party distribution."""

from __future__ import annotations

from types import ModuleType

import pytest
from tests.support.pages import find_block

from headrace import ConfigError, Pipeline, PluginError
from headrace.engine.plan.error_translation import redacted_errors, translate
from headrace.registry.plugin_registry import registry
from headrace.runtime.jars.jar_choice import list_coordinates
from headrace.runtime.session.session_builder import complete_session_conf

BLOCK = find_block("docs/plugins.md", "python", "(FileSystem)")
DENIED = RuntimeError("com.google.api.client.googleapis.json.GoogleJsonResponseException: 403 Forbidden")


@pytest.fixture(autouse=True)
def acme(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    module = ModuleType("acme_gcs")
    exec(compile(BLOCK, "docs/plugins.md", "exec", dont_inherit=True), module.__dict__)
    known = registry()
    monkeypatch.setattr(known, "_registrations", list(known._registrations))
    known.register(module, "acme 1.0")
    return module


def make(checkpoint: str) -> Pipeline:
    return Pipeline.from_dict(
        {
            "name": "orders",
            "source": {"files": {"path": "bronze", "format": "json"}},
            "transforms": [{"unwrap": {}}],
            "sink": {"iceberg": {"warehouse": "lake"}},
            "checkpoint": checkpoint,
        }
    )


def test_file_system_is_selected_by_the_address() -> None:
    plan = make("gs://lake/checkpoint").plan
    assert [system.name for system in plan.file_systems] == ["gs"]
    assert "com.google.cloud.bigdataoss:gcs-connector:hadoop3-2.2.26" in list_coordinates(plan.plugins, "3.5")
    assert make("checkpoint").plan.file_systems == ()


def test_options_of_the_pipeline_override_those_of_the_file_system() -> None:
    key, systems = "spark.hadoop.fs.gs.impl", make("gs://lake/checkpoint").plan.file_systems
    assert complete_session_conf(systems, {}, [])[key].endswith("GoogleHadoopFileSystem")
    assert complete_session_conf(systems, {key: "mine"}, [])[key] == "mine"


def test_file_system_explains_errors_of_other_plugins() -> None:
    plan = make("gs://lake/checkpoint").plan
    assert "Google rejected the credentials" in str(translate(DENIED, plan))
    with pytest.raises(ConfigError, match="Google rejected the credentials") as raised, redacted_errors(plan):
        raise DENIED
    assert raised.value.__cause__ is DENIED
    with pytest.raises(RuntimeError, match="another"), redacted_errors(plan):
        raise RuntimeError("another")


def test_invalid_class_is_rejected_when_it_is_needed(acme: ModuleType) -> None:
    acme.Gs.api_version = 0
    assert make("checkpoint").plan.file_systems == ()
    with pytest.raises(PluginError, match=r"'gs' of acme 1\.0 was written for plugin API 0"):
        make("gs://lake/checkpoint")
