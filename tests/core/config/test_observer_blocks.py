"""Observers as keys of the pipeline file."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
from pydantic import SecretStr
from tests.core.conftest import Headrace

from headrace import ConfigError, Pipeline, PluginError
from headrace.config import loader, observer_blocks
from headrace.config.json_schema import pipeline_schema
from headrace.registry.plugin_registry import PluginRegistry
from headrace.sdk.config import Config
from headrace.sdk.hookspecs import hookimpl
from headrace.sdk.observer import Observer, RunEvent

FILE = """\
name: orders
source: {files: {path: bronze/, format: json}}
sink: {files: {path: lake/}}
checkpoint: checkpoint/
"""


class BellConfig(Config):
    """Where the bell is."""

    url: str
    """Address of the bell."""

    token: SecretStr | None = None
    """Token of the bell."""


class Bell(Observer):
    """``bell: {url: …}``, a key of the pipeline file."""

    name: ClassVar[str] = "bell"
    api_version = 1
    Config = BellConfig
    config: BellConfig

    def check(self, spark: Any = None) -> None:
        if self.config.url == "nowhere":
            raise ConfigError("there is no bell", where="bell", fix="name one")

    def observe(self, event: RunEvent) -> None:
        raise NotImplementedError


class Source(Bell):
    name = "source"


@pytest.fixture(autouse=True)
def plugins(monkeypatch: pytest.MonkeyPatch) -> PluginRegistry:
    plugins = PluginRegistry.from_entry_points()
    names = {"bell": Bell, "source": Source, "broken": "no_such_module:Bell"}
    plugins.register(SimpleNamespace(headrace_observers=hookimpl(lambda: names)), "acme 1.0")
    for module in (loader, observer_blocks):
        monkeypatch.setattr(module, "registry", lambda: plugins)
    return plugins


def load(folder: Path, text: str) -> Pipeline:
    file = folder / "orders.yaml"
    file.write_text(FILE + text)
    return Pipeline.from_file(file)


def test_observer_is_built_with_its_options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BELL_TOKEN", "hush and hush")
    pipeline = load(tmp_path, "bell: {url: 'http://bell', token: '${env:BELL_TOKEN}'}\n")
    (bell,) = pipeline.plan.observers
    assert isinstance(bell, Bell)
    assert bell.config.token is not None
    assert bell.config.token.get_secret_value() == "hush and hush"
    assert bell in pipeline.plan.all_plugins
    assert pipeline.redact("it says hush and hush") == "it says ******"
    assert load(tmp_path, "").plan.observers == ()


def test_options_of_a_caller_replace_those_of_the_file(tmp_path: Path) -> None:
    file = tmp_path / "orders.yaml"
    for block in ("", "bell:\n", "bell: {url: 'http://bell'}\n"):
        file.write_text(FILE + block)
        (bell,) = Pipeline.from_file(file, {"bell": {"url": "http://other"}}).plan.observers
        assert bell.config.url == "http://other"
    file.write_text(FILE + "bell: [url]\n")
    with pytest.raises(ConfigError, match="the options of 'bell' must be a mapping"):
        Pipeline.from_file(file, {"bell": {"url": "http://other"}})
    file.write_text(FILE)
    with pytest.raises(ConfigError, match=r"orders\.yaml:1 bell\.ulr: unknown key 'ulr'"):
        Pipeline.from_file(file, {"bell": {"ulr": "http://other"}})


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("bell: {ulr: x}\n", 5, "bell.ulr: unknown key 'ulr'.*did you mean 'url'"),
        ("bell: {}\n", 5, "bell: 'url' is missing"),
        ("bell:\n", 5, "bell: 'url' is missing"),
        ("bell: [url]\n", 5, "the options of 'bell' must be a mapping"),
        ("belll: {url: x}\n", 5, "unknown key 'belll'.*did you mean 'bell'"),
        ("bell: {url: '${env:NO_SUCH_NAME}'}\n", 5, "NO_SUCH_NAME"),
    ],
)
def test_wrong_options_are_reported_with_their_line(tmp_path: Path, text: str, line: int, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, text)
    assert re.search(f"orders.yaml:{line}.*{message}", str(caught.value), re.DOTALL), caught.value


def test_broken_observer_is_reported(tmp_path: Path) -> None:
    with pytest.raises(PluginError, match=r"the observer 'broken' of acme 1\.0 cannot be imported"):
        load(tmp_path, "broken: {}\n")


def test_observer_with_the_name_of_a_key_is_never_used(tmp_path: Path) -> None:
    assert load(tmp_path, "").plan.observers == ()


def test_schema_has_the_options(plugins: PluginRegistry) -> None:
    schema = pipeline_schema(plugins)
    assert schema["properties"]["bell"] == {"$ref": "#/$defs/observer.bell"}
    assert set(schema["$defs"]["observer.bell"]["properties"]) == {"url", "token"}
    assert schema["properties"]["source"] != {"$ref": "#/$defs/observer.source"}
    assert "broken" not in schema["properties"]


def test_observers_of_python_are_checked() -> None:
    from headrace_sinks.files import FilesSink
    from headrace_sources.transports.files import FilesSource

    source, sink = FilesSource(path="bronze/", format="json"), FilesSink(path="lake/")
    bell = Bell(url="http://bell")
    assert Pipeline("orders", source, [sink], "checkpoint/", observers=[bell]).plan.observers == (bell,)
    with pytest.raises(ConfigError, match=r"Pipeline, observers\[0\]: it is the class Bell instead of an object"):
        Pipeline("orders", source, [sink], "checkpoint/", observers=[Bell])  # type: ignore[list-item]


def test_plugins_reports_an_observer_with_the_name_of_a_key(
    headrace: Headrace, plugins: PluginRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    from headrace.registry import plugin_registry

    monkeypatch.setattr(plugin_registry, "registry", lambda: plugins)
    lines = headrace("plugins", "source").output
    assert "choose another name" in lines or "has the name of one of headrace's" in lines
