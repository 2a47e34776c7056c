"""JSON Schema of pipeline files, which accepts and rejects the same files as headrace."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any, ClassVar

import pytest
import yaml
from jsonschema import Draft202012Validator
from pydantic import PlainValidator
from tests.core.conftest import SAMPLE, Headrace

from headrace.config.json_schema import pipeline_schema
from headrace.registry.plugin_registry import PluginRegistry
from headrace.sdk.auth import Auth, AuthProvider
from headrace.sdk.changes import Changes
from headrace.sdk.config import Config
from headrace.sdk.hookspecs import hookimpl
from headrace.sdk.transform import Transform

ROOT = Path(__file__).parents[3]
Change = Callable[[dict[str, Any]], object]


@pytest.fixture(scope="module")
def schema() -> dict[str, Any]:
    from headrace.registry.plugin_registry import registry

    made = pipeline_schema(registry())
    Draft202012Validator.check_schema(made)
    return made


def find_errors(schema: dict[str, Any], document: Any) -> list[str]:
    return [f"{error.json_path}: {error.message}" for error in Draft202012Validator(schema).iter_errors(document)]


def change_sample(change: Change) -> dict[str, Any]:
    document: dict[str, Any] = yaml.safe_load(SAMPLE)
    change(document)
    return document


def test_command_prints_the_schema(headrace: Headrace, schema: dict[str, Any]) -> None:
    assert json.loads(headrace("schema").output) == schema


@pytest.mark.parametrize("file", ["plugins/demo/headrace_demo/museum/pipeline.yaml"])
def test_shipped_files_are_valid(schema: dict[str, Any], file: str) -> None:
    assert find_errors(schema, yaml.safe_load((ROOT / file).read_text())) == []


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d,
        lambda d: d.pop("tables"),
        lambda d: d["tables"][0].update(key="artist_id"),
        lambda d: d["tables"][0].update({"route.by.field": "source.table", "key": {"a": ["b", "c"], "*": "id"}}),
        lambda d: d["tables"][0].update(sink={"iceberg": {"mode": "append", "write.format.default": "orc"}}),
        lambda d: d["tables"][0].update(sinks=["iceberg"], maintenance={"history": "7 days"}),
        lambda d: d["transforms"].append("unwrap"),
        lambda d: d["transforms"].append({"unwrap": None}),
        lambda d: d.update(sink="console"),
        lambda d: d.update(sinks=[d.pop("sink"), {"console": {"numRows": 5}}]),
        lambda d: d["sink"]["iceberg"].update({"mode": "${env:MODE}", "write.format.default": "orc"}),
        lambda d: d.update(sink={"console": {"numRows": "${env:ROWS}"}}),
        lambda d: d["source"]["files"].update(maxFilesPerTrigger=5),
        lambda d: d["source"].update(value="json", key="none"),
        lambda d: d.update(spark={"spark.driver.memory": "4g"}, trigger="10 seconds"),
    ],
)
def test_files_that_headrace_accepts_are_valid(schema: dict[str, Any], change: Change) -> None:
    assert find_errors(schema, change_sample(change)) == []


@pytest.mark.parametrize(
    ("change", "where", "complaint"),
    [
        (lambda d: d.update(nmae="x"), "$", "'nmae' was unexpected"),
        (lambda d: d["source"]["files"].update(pth="x"), "$.source", "'pth' was unexpected"),
        (lambda d: d["tables"][0].update(soruce="x"), "$.tables[0]", "'soruce' was unexpected"),
        (lambda d: d["transforms"][0]["unwrap"].update(ad="x"), "$.transforms[0]", "'ad' was unexpected"),
        (lambda d: d["transforms"].append({"unwarp": {}}), "$.transforms[3]", "'unwarp' was unexpected"),
        (lambda d: d["transforms"][0].update(rename={}), "$.transforms[0]", "has too many properties"),
        (lambda d: d.update(sink={"console": {"numRows": "five"}}), "$.sink", "'five' is not valid"),
        (lambda d: d["source"].update(value={"avrro": {}}), "$.source.value", "'avrro' was unexpected"),
        (lambda d: d["source"].update(value="none"), "$.source.value", "'none' is not"),
        (lambda d: d.pop("checkpoint"), "$", "'checkpoint' is a required property"),
        (lambda d: d.pop("sink"), "$", "is not valid under any of the given schemas"),
        (lambda d: d.update(sinks=[{"console": {}}]), "$", "is valid under each of"),
        (lambda d: d.update(spark={"master": "x"}), "$.spark", "'master' does not match"),
    ],
)
def test_files_that_headrace_rejects_are_invalid(
    schema: dict[str, Any], change: Change, where: str, complaint: str
) -> None:
    def leaves(error: Any) -> list[Any]:
        return [error, *(leaf for inner in error.context for leaf in leaves(inner))]

    found = [
        leaf for error in Draft202012Validator(schema).iter_errors(change_sample(change)) for leaf in leaves(error)
    ]
    assert any(leaf.json_path.startswith(where) and complaint in leaf.message for leaf in found)


@pytest.mark.parametrize(
    ("change", "where", "complaint"),
    [
        (lambda d: d["source"]["files"].update(pth="x"), "$.source.files", "'pth' was unexpected"),
        (
            lambda d: d["tables"][0].update(sink={"iceberg": {"mod": "append"}}),
            "$.tables[0].sink.iceberg",
            "'mod' does not match",
        ),
        (lambda d: d["tables"][0].update(sink={"silver": 1}), "$.tables[0].sink.silver", "1 is not of type 'object'"),
        (lambda d: d["transforms"][0]["unwrap"].update(ad="x"), "$.transforms[0].unwrap", "'ad' was unexpected"),
        (lambda d: d["transforms"].append({"unwarp": {}}), "$.transforms[3]", "'unwarp' was unexpected"),
        (lambda d: d["transforms"].append("unwarp"), "$.transforms[3]", "'unwarp' is not one of"),
        (lambda d: d.update(sink={"console": {"numRows": "five"}}), "$.sink.console.numRows", "'five' is not valid"),
        (lambda d: d["source"].update(key={"json": {"x": 1}}), "$.source.key.json", "'x' was unexpected"),
        (lambda d: d["source"].update(key="non"), "$.source.key", "'non' is not one of"),
        (
            lambda d: d["transforms"].append({"mask": {"columns": {"a": {"sha256": {"slat": "x", "salt": "y"}}}}}),
            "$.transforms[3].mask.columns.a.sha256",
            "'slat' was unexpected",
        ),
    ],
)
def test_error_in_a_plugin_block_is_at_its_key(
    schema: dict[str, Any], change: Change, where: str, complaint: str
) -> None:
    (error,) = Draft202012Validator(schema).iter_errors(change_sample(change))
    assert error.json_path == where
    assert complaint in error.message


def test_keys_have_descriptions(schema: dict[str, Any]) -> None:
    assert schema["properties"]["checkpoint"]["description"] == "Folder for offsets, progress and dead letters."
    files = schema["$defs"]["source.files"]
    assert files["description"].startswith("Files of change events.")
    assert files["properties"]["path"]["description"].startswith("A folder, or a glob of folders")
    assert "sha256" in schema["$defs"]["transform.mask"]["$defs"]["MaskRule"]["properties"]


class Login(Config):
    """Credentials."""

    user: str
    """Who."""


class Bearer(AuthProvider):
    name = "bearer"
    api_version = 1
    Config = Login

    def client_options(self, servers: str) -> dict[str, str]:
        return {}


class Odd:
    """Type without a representation in JSON."""


class OddConfig(Config):
    passthrough: ClassVar[tuple[str, ...]] = ("acme.*",)
    auth: Auth = None
    odd: Annotated[Odd, PlainValidator(lambda value: Odd())] | None = None


class OddTransform(Transform):
    name = "odd"
    api_version = 1
    Config = OddConfig

    def apply(self, changes: Changes) -> Changes:
        return changes


def test_schema_includes_types_options_and_nested_plugins_of_a_plugin(plugins: PluginRegistry) -> None:
    package = SimpleNamespace(
        headrace_transforms=hookimpl(lambda: {"odd": OddTransform, "gone": "acme.nowhere:Gone"}),
        headrace_auth_providers=hookimpl(lambda: {"bearer": Bearer}),
    )
    plugins.register(package, "acme 1.0")
    made = pipeline_schema(plugins)
    Draft202012Validator.check_schema(made)
    validator = Draft202012Validator({"$defs": made["$defs"], "$ref": "#/$defs/block.transform"})
    assert validator.is_valid({"odd": {"odd": 7, "acme.x": True, "auth": {"bearer": {"user": "me"}}}})
    assert not validator.is_valid({"odd": {"auth": {"bearer": {"usr": "me"}}}})
    assert not validator.is_valid({"odd": {"acmex": True}})
    assert not validator.is_valid({"gone": {}})
