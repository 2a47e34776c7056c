"""A dialect that is only installed takes no events from those that the file names and those at home."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from headrace import Pipeline
from headrace.config import loader
from headrace.engine.plan import pipeline_spec
from headrace.errors import DataError, HeadraceError, PluginError
from headrace.registry.plugin_registry import PluginRegistry
from headrace.sdk.dialect import Dialect
from headrace.sdk.events import Events
from headrace.sdk.hookspecs import hookimpl
from headrace_sources.dialects.flat import FlatDialect
from headrace_sources.formats.json.json_format import JsonFormat

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TOPIC = "shop.orders"
Install = Callable[..., PluginRegistry]


class Greedy(FlatDialect):
    """Takes whatever there is, before all others; reads it as flat rows."""

    name = "greedy"
    api_version = 1
    priority = 0


class Greedy2(Greedy):
    name = "greedy2"


class Unsure(Greedy):
    name = "unsure"

    @classmethod
    def matches(cls, schema: Any) -> bool:
        raise SystemExit("which?")


class Late(Greedy):
    name = "late"
    priority = "first"  # type: ignore[assignment]


class Unborn(Greedy):
    name = "unborn"

    def __init__(self, config: Any = None, **options: Any) -> None:
        raise RuntimeError("not yet")


class Lines(JsonFormat):
    name = "lines"
    api_version = 1


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Install:
    """Registers dialects, and a format, as a distribution beside headrace's own."""

    def register(distribution: str, *dialects: type[Dialect], off: str = "", **hooks: Any) -> PluginRegistry:
        made = known.get(off) or PluginRegistry.from_entry_points()
        known[off] = made
        hooks["headrace_dialects"] = {one.name: one for one in dialects}
        module = SimpleNamespace(**{name: hookimpl(lambda found=found: found) for name, found in hooks.items()})
        made.register(module, distribution)
        for module_with_registry in (pipeline_spec, loader):
            monkeypatch.setattr(module_with_registry, "registry", lambda: made)
        return made

    known: dict[str, PluginRegistry] = {}
    return register


def events(*names: str) -> Events:
    from pyspark.sql.types import StructType

    schema = StructType()
    for name in names:
        schema.add(name, StructType().add("id", "integer") if name in ("before", "after", "source") else "string")
    return Events(TOPIC, schema, lambda session, _: session.range(0))


ENVELOPE = ("op", "before", "after", "source")


def pipeline(folder: Path, **changed: Any) -> Pipeline:
    config = {
        "name": "shop",
        "source": {"files": {"path": str(folder / "in"), "format": "json"}},
        "sink": {"files": {"path": str(folder / "out")}},
        "checkpoint": str(folder / "checkpoint"),
    }
    return Pipeline.from_dict({**config, **changed})


def test_one_that_takes_everything_gets_nothing_before_it_is_named(tmp_path: Path, install: Install) -> None:
    install("acme 1.0", Greedy, Unsure, Late, Unborn)
    plan = pipeline(tmp_path).plan
    assert plan.dialect_of(events(*ENVELOPE)).name == "debezium"
    assert plan.dialect_of(events("id", "name")).name == "flat"
    assert not any(isinstance(plugin, Greedy) for plugin in plan.plugins)  # no check, jar or setting of theirs counts

    plan = pipeline(tmp_path, dialects={"greedy": {}}).plan
    assert plan.dialect_of(events(*ENVELOPE)).name == "greedy"


def test_a_name_of_headraces_is_not_taken(tmp_path: Path, install: Install) -> None:
    class Debezium(Greedy):
        name = "debezium"

    install("acme 1.0", Debezium)
    for plan in (pipeline(tmp_path).plan, pipeline(tmp_path, dialects={"debezium": {}}).plan):
        assert type(plan.dialect_of(events(*ENVELOPE))).__module__ == "headrace_sources.dialects.debezium"


def test_one_that_comes_with_the_pipelines_format_is_at_home(tmp_path: Path, install: Install) -> None:
    install("acme 1.0", Greedy, headrace_formats={"lines": Lines})
    install("a.other 1.0", Greedy2)
    kafka = {"bootstrap.servers": "localhost:1", "subscribe": TOPIC}
    for value, name in (("json", "debezium"), ("lines", "greedy")):
        plan = pipeline(tmp_path, source={"kafka": kafka, "value": value}).plan
        assert plan.dialect_of(events(*ENVELOPE)).name == name


@pytest.mark.parametrize(("dialect", "said"), [(Unborn, "cannot be built: RuntimeError: not yet"), (Late, "a priority that is not a number: 'first'")])  # fmt: skip
def test_one_that_is_named_and_broken_is_an_error(
    tmp_path: Path, install: Install, dialect: type[Dialect], said: str
) -> None:
    install("acme 1.0", dialect)
    with pytest.raises(PluginError) as raised:
        pipeline(tmp_path, dialects={dialect.name: {}})
    assert said in str(raised.value)
    assert "of acme 1.0" in str(raised.value)


def test_one_that_is_named_and_cannot_say_what_it_knows(tmp_path: Path, install: Install) -> None:
    install("acme 1.0", Unsure)
    with pytest.raises(HeadraceError) as raised:
        pipeline(tmp_path, dialects={"unsure": {}}).plan.dialect_of(events(*ENVELOPE))
    assert str(raised.value).startswith(f"topic {TOPIC}: the dialect 'unsure' failed to match events: SystemExit")


def test_when_no_other_knows_a_shape_the_installed_are_asked(
    tmp_path: Path, install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADRACE_DISABLE_PLUGINS", "flat")
    install("acme 1.0", Greedy, Unsure)
    assert pipeline(tmp_path).plan.dialect_of(events("id", "name")).name == "greedy"
    assert pipeline(tmp_path).plan.dialect_of(events(*ENVELOPE)).name == "debezium"

    install("other 1.0", Greedy2)
    with pytest.raises(DataError) as raised:
        pipeline(tmp_path).plan.dialect_of(events("id", "name"))
    assert str(raised.value) == (
        f"topic {TOPIC}: several dialects match its events: the dialect 'greedy' of acme 1.0, the dialect 'greedy2' of other 1.0\n"
        "  fix: name one of them under `dialects:`"
    )


@pytest.mark.spark
@pytest.mark.one_spark
def test_check_says_who_would_take_them_too(tmp_path: Path, spark: SparkSession, install: Install) -> None:
    install("acme 1.0", Greedy, Unsure, Unborn)
    (tmp_path / "in" / TOPIC).mkdir(parents=True)
    event = {"op": "c", "before": None, "after": {"id": 1}, "source": {"lsn": 8}}
    (tmp_path / "in" / TOPIC / "one.json").write_text(json.dumps(event) + "\n")
    changed = {"tables": [{"source": "*", "key": "id"}]}
    found = {item.found for item in pipeline(tmp_path, **changed).check(spark) if item.what == f"topic {TOPIC}"}
    said = "the dialect 'greedy' of acme 1.0 also matches these events, but is not used; to use it, set `dialects: {greedy: {}}`"
    assert said in found
    assert len(found) == 2
