"""Commands ``headrace plugins`` and ``headrace jars``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib.metadata import EntryPoint
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pyspark
import pytest
from tests.core.conftest import Headrace

from headrace import __version__
from headrace.registry.plugin_registry import PluginRegistry
from headrace.registry.registration import Broken
from headrace.runtime.jars import ivy
from headrace.sdk.changes import Changes
from headrace.sdk.hookspecs import hookimpl
from headrace.sdk.transform import Transform

LINE = ".".join(pyspark.__version__.split(".")[:2])


class Upper(Transform):
    name = "upper"
    api_version = 1
    jars: ClassVar[Mapping[str, tuple[str, ...]]] = {LINE: ("org.acme:upper:1.0", "org.acme:letters:2.0")}

    def apply(self, changes: Changes) -> Changes:
        return changes


class Old(Upper):
    name = "old"
    api_version = 0


def transforms(**targets: Any) -> SimpleNamespace:
    return SimpleNamespace(headrace_transforms=hookimpl(lambda: targets))


@pytest.fixture
def acme(plugins: PluginRegistry) -> PluginRegistry:
    plugins.register(transforms(upper=Upper, old=Old, twice=Upper, gone="acme.nowhere:Gone"), "acme 1.0")
    plugins.register(transforms(twice=Upper), "rival 0.9")
    plugins.broken.append(Broken("sinks", "wreck 2.0", ImportError("no module named 'rudder'")))
    return plugins


def test_built_in_plugins_are_listed(headrace: Headrace) -> None:
    result = headrace("plugins")
    assert result.exit_code == 0
    lines = [line.split() for line in result.output.splitlines()]
    assert lines[0] == ["kind", "name", "from", "API", "can", "state"]
    assert [
        "source",
        "files",
        "headrace",
        __version__,
        "1",
        "native,",
        "replay,",
        "known_schemas,",
        "connect",
        "ok",
    ] in lines
    assert ["transform", "rename", "headrace", __version__, "1", "–", "ok"] in lines
    assert all(line[-1] == "ok" for line in lines[1:])


def test_broken_plugins_are_listed_with_the_reason(headrace: Headrace, acme: PluginRegistry) -> None:
    result = headrace("plugins")
    assert result.exit_code == 0
    (_, gone, old, twice, rivals, upper, wreck) = [" ".join(line.split()) for line in result.output.splitlines()]
    assert upper == "transform upper acme 1.0 1 – ok"
    assert gone.startswith(
        "transform gone acme 1.0 – – the transform 'gone' of acme 1.0 cannot be imported: ModuleNotFound"
    )
    assert "was written for plugin API 0; this headrace has 1" in old
    assert twice.endswith("registered twice, by acme 1.0 and rival 0.9")
    assert rivals.startswith("transform twice rival 0.9")
    assert wreck == "– sinks wreck 2.0 – – not loaded: ImportError: no module named 'rudder'"


def test_control_characters_in_a_name_are_escaped(headrace: Headrace, plugins: PluginRegistry) -> None:
    plugins.register(transforms(**{"a\x1b[31mb": Upper, "[red]x": Upper}), "acme 1.0")
    output = headrace("plugins").output
    assert "\x1b" not in output
    assert r"'a\x1b[31mb'" in output
    assert " [red]x " in output
    assert "has an invalid name" in " ".join(output.split())


def test_plugins_are_printed_as_json(headrace: Headrace, acme: PluginRegistry) -> None:
    found = {(item["name"], item["distribution"]): item for item in json.loads(headrace("plugins", "--json").output)}
    assert found["upper", "acme 1.0"] == {
        "kind": "transform",
        "name": "upper",
        "distribution": "acme 1.0",
        "api_version": 1,
        "capabilities": [],
        "reason": None,
        "state": "ok",
    }
    assert {name for (name, _), item in found.items() if item["state"] == "broken"} == {"gone", "old", "twice", "sinks"}
    assert found["sinks", "wreck 2.0"]["kind"] is None


def test_plugin_is_shown_with_its_options(headrace: Headrace) -> None:
    output = headrace("plugins", "iceberg").output
    # A source has the same name.
    (line,) = [line for line in output.splitlines() if line.startswith("sink")]
    assert " ".join(line.split()) == (
        f"sink iceberg headrace {__version__} 1 upsert, delete, schema evolution, exactly once, time travel, readable, single pass, concurrent writers, connect ok"
    )
    text = " ".join(output.split())
    assert "table.type merge-on-read or copy-on-write How rows are replaced: merge-on-read is faster to write" in text
    assert "[default: merge-on-" in text
    assert "write.*, commit.*" in text
    assert "salt text, never shown Precedes every value." in " ".join(headrace("plugins", "mask").output.split())
    (found,) = json.loads(headrace("plugins", "ssm", "--json").output)
    assert (found["kind"], found["state"]) == ("secret", "ok")


def test_all_plugins_with_the_same_name_are_shown(headrace: Headrace, acme: PluginRegistry) -> None:
    """Broken plugins are shown with the reason, others with their options."""
    output = " ".join(headrace("plugins", "twice").output.split())
    assert output.count("registered twice, by acme 1.0 and rival 0.9") == 2
    assert "Options" not in output
    assert "Options: none it has no options" in " ".join(headrace("plugins", "upper").output.split())
    refused = headrace("plugins", "uper")
    assert refused.exit_code == 3
    assert "there is no plugin 'uper'\n  fix: did you mean 'upper'?" in refused.stderr


def test_plugin_with_invalid_docstring_is_reported(headrace: Headrace, plugins: PluginRegistry) -> None:
    class Odd(Upper):
        """Transform whose docstring is replaced below."""

    Odd.__doc__ = 7  # type: ignore[assignment]
    plugins.register(transforms(odd=Odd), "acme 1.0")
    refused = headrace("plugins", "odd")
    assert refused.exit_code == 3
    assert "the transform 'odd' of acme 1.0 cannot be described: AttributeError" in refused.stderr


def test_distribution_that_fails_to_load_is_reported(headrace: Headrace, monkeypatch: pytest.MonkeyPatch) -> None:
    from headrace.registry import entry_points, plugin_registry

    entry_point = EntryPoint("sinks", "acme_that_is_not_there", "headrace")
    monkeypatch.setattr(entry_points, "entry_points", lambda group: [entry_point])
    found = PluginRegistry.from_entry_points()
    monkeypatch.setattr(plugin_registry, "registry", lambda: found)
    assert "not loaded: ModuleNotFoundError: No module named 'acme_that_is_not_there'" in headrace("plugins").output


def test_jars_are_shown_and_fetched(
    headrace: Headrace, acme: PluginRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADRACE_CACHE", str(tmp_path))

    def fetch(coordinates: list[str], folder: Path, *, report: Any, **_: Any) -> list[Path]:
        report("  1/1 upper")
        (folder / "jars").mkdir(parents=True)
        jar = folder / "jars" / "upper.jar"
        jar.write_bytes(bytes(1_500_000))
        return [jar]

    monkeypatch.setattr(ivy, "fetch", fetch)
    before = headrace("jars")
    assert before.exit_code == 0
    assert before.output.splitlines()[0].split() == ["needed", "on", "Spark", pyspark.__version__, "by"]
    assert before.output.splitlines()[1].split() == ["org.acme:upper:1.0", "upper"]
    assert f"some of them are not in {tmp_path}: headrace jars --download" in before.output

    fetched = headrace("jars", "--download")
    assert fetched.stderr == "  1/1 upper\n"
    assert f"{tmp_path}/ivy/jars/upper.jar" in fetched.stdout
    assert fetched.stdout.endswith("1 jar, 1.5 MB\n")
    assert headrace("jars").output == fetched.stdout


def test_jars_of_a_pipeline_file_are_listed(headrace: Headrace, sample: Path) -> None:
    output = headrace("jars", "artists.yaml").output
    assert "iceberg-spark-runtime" in output
    assert "spark-avro" in output
    assert "hudi" not in output


def test_no_jars_are_required(headrace: Headrace, plugins: PluginRegistry) -> None:
    assert headrace("jars").output == f"no jars are needed on Spark {pyspark.__version__}\n"
