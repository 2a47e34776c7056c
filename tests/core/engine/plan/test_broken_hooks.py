"""Plugins whose methods raise or return another type: the error names the plugin and its distribution."""

from __future__ import annotations

import inspect
import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.tiers import nightly_after

from headrace import ConfigError, FatalError, HeadraceError, Pipeline, PluginError
from headrace.registry.plugin_registry import PluginRegistry
from headrace.sdk.hookspecs import hookimpl
from headrace.sdk.plugin import Plugin
from headrace_sinks import FilesSink
from headrace_sources import FilesSource
from headrace_transforms import Mask

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.one_spark]

BASES: dict[str, type[Plugin]] = {"transform": Mask, "sink": FilesSink, "source": FilesSource}


def list_methods(base: type) -> list[str]:
    return sorted(n for n, value in inspect.getmembers(base, inspect.isroutine) if not n.startswith("_"))


def fail(self: Plugin, *_: Any, **__: Any) -> object:
    raise ValueError("no license")


def return_object(self: Plugin, *_: Any, **__: Any) -> object:
    return object()


def install(monkeypatch: pytest.MonkeyPatch, kind: str, method: str, body: Any) -> None:
    """Register a plugin ``acme`` of a kind, whose ``method`` is ``body``, in all modules that use the registry."""
    known = PluginRegistry.from_entry_points()
    broken = type("Acme", (BASES[kind],), {"name": "acme", "api_version": 1, method: body})
    hook = hookimpl(lambda: {"acme": broken}, specname=f"headrace_{kind}s")
    known.register(SimpleNamespace(**{f"headrace_{kind}s": hook}), "headrace-acme 1.0")
    for name, module in list(sys.modules.items()):
        if name.startswith("headrace.") and callable(vars(module).get("registry")):
            monkeypatch.setattr(module, "registry", lambda: known)


def build(kind: str, folder: Path) -> Pipeline:
    """Return a pipeline of one record; ``acme`` is its plugin of the kind."""
    topic = folder / "in/topics/shop.people/partition=0"
    topic.mkdir(parents=True)
    (topic / "shop.people+0+0000000000.json").write_text(json.dumps({"id": 1, "name": "Arp", "__deleted": "false"}))
    names = {one: "acme" if one == kind else builtin for one, builtin in (("source", "files"), ("sink", "files"))}
    masks = [{"acme": {"columns": {"name": {"characters": 5}}}}] if kind == "transform" else []
    return Pipeline.from_dict(
        {
            "name": "people",
            "source": {names["source"]: {"path": str(folder / "in"), "format": "json"}},
            "transforms": masks,
            "tables": [{"source": "shop.people", "key": ["id"]}],
            "sink": {names["sink"]: {"path": str(folder / "out")}},
            "checkpoint": str(folder / "checkpoint"),
        }
    )


def run(kind: str, folder: Path, spark: SparkSession) -> str:
    """Return the number of applied rows, or the parts of the plugin's error that a user needs."""
    try:
        pipeline = build(kind, folder)
        pipeline.check(spark)
        (table,) = pipeline.run(spark).tables
    except PluginError as error:
        return " ".join(part for part in ("acme", "ValueError: no license") if part in str(error))
    else:
        return f"{table.applied} applied"  # the pipeline does not call the method
    finally:
        assert not spark.streams.active


@pytest.mark.parametrize(
    ("kind", "method"),
    nightly_after(4, [(kind, method) for kind, base in BASES.items() for method in list_methods(base)]),
)
def test_error_names_the_plugin_whose_method_raises(
    kind: str, method: str, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(monkeypatch, kind, method, fail)
    assert run(kind, tmp_path, spark) in ("1 applied", "acme ValueError: no license")


@pytest.mark.parametrize("method", [pytest.param(n, marks=pytest.mark.nightly) for n in list_methods(Mask)])
def test_error_names_the_transform_whose_method_returns_another_type(
    method: str, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(monkeypatch, "transform", method, return_object)
    assert run("transform", tmp_path, spark) in ("1 applied", "acme")


@pytest.mark.parametrize("method", ["reads", "warnings"])
def test_string_instead_of_strings_is_rejected(
    method: str, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(monkeypatch, "transform", method, lambda self, *_: "name")
    with pytest.raises(PluginError, match=rf"plugin acme: {method}\w* returns str instead of a collection of strings"):
        build("transform", tmp_path).run(spark)


def test_error_of_a_callback_names_the_callback(spark: SparkSession, tmp_path: Path) -> None:
    def fail_once(_: object) -> None:
        raise KeyError("metrics")

    with pytest.raises(FatalError, match="on_progress raises KeyError: 'metrics'"):
        build("", tmp_path).run(spark, on_progress=fail_once)


def test_arguments_of_another_type_are_rejected(spark: SparkSession, tmp_path: Path) -> None:
    pipeline = build("", tmp_path)
    wrong: Any = "local"
    number: Any = 5
    with pytest.raises(ConfigError, match="must be of type SparkSession, and is of type str"):
        pipeline.run(wrong)
    with pytest.raises(ConfigError, match="5 is not an interval"):
        pipeline.start(spark, trigger=number)
    with pytest.raises(ConfigError, match="'' is not an interval"):
        pipeline.start(spark, trigger="")
    with pytest.raises(ConfigError, match="must be a mapping, and is of type list"):
        Pipeline.from_dict([wrong])  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"FilesSink: 'path' is missing"):
        FilesSink()
    with pytest.raises(ConfigError, match=r"FilesSink, pth: unknown key 'pth'"):
        FilesSink(path="out", pth="in")


def test_error_of_on_idle_stops_the_stream(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(monkeypatch, "sink", "on_idle", fail)
    assert run("sink", tmp_path, spark) == "acme ValueError: no license"


def test_error_of_the_run_itself_ends_the_run(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = build("", tmp_path)

    def exit_process(*_: Any) -> None:
        raise SystemExit("no license")

    monkeypatch.setattr("headrace.engine.run.query.translate", exit_process)
    monkeypatch.setattr("headrace.engine.run.native_query.NativeQuery._run_batches", fail)
    with pytest.raises(FatalError, match="SystemExit: no license"):
        pipeline.run(spark)
    assert not spark.streams.active


def test_plugin_that_cannot_explain_an_error_does_not_hide_it(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(monkeypatch, "sink", "explain", fail)
    pipeline = build("sink", tmp_path)
    (tmp_path / "out").write_text("no folder")
    with pytest.raises(HeadraceError, match="Not a directory"):
        pipeline.run(spark)
