"""Choice of dialects: a merely installed dialect never precedes a configured or built-in one."""

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
    """Dialect that matches every shape with the highest priority, and reads flat rows."""

    name = "greedy"
    api_version = 1
    priority = 0


class Greedy2(Greedy):
    name = "greedy2"


class FailsToMatch(Greedy):
    name = "unsure"

    @classmethod
    def matches(cls, schema: Any) -> bool:
        raise SystemExit("which?")


class InvalidPriority(Greedy):
    name = "late"
    priority = "first"  # type: ignore[assignment]


class FailsToBuild(Greedy):
    name = "unborn"

    def __init__(self, config: Any = None, **options: Any) -> None:
        raise RuntimeError("not yet")


class Lines(JsonFormat):
    name = "lines"
    api_version = 1


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Install:
    """Return a function that registers dialects and a format as a third-party distribution."""

    def register(distribution: str, *dialects: type[Dialect], disabled: str = "", **hooks: Any) -> PluginRegistry:
        made = known.get(disabled) or PluginRegistry.from_entry_points()
        known[disabled] = made
        hooks["headrace_dialects"] = {dialect.name: dialect for dialect in dialects}
        module = SimpleNamespace(**{name: hookimpl(lambda found=found: found) for name, found in hooks.items()})
        made.register(module, distribution)
        for module_of_registry in (pipeline_spec, loader):
            monkeypatch.setattr(module_of_registry, "registry", lambda: made)
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


def pipeline(folder: Path, **overrides: Any) -> Pipeline:
    config = {
        "name": "shop",
        "source": {"files": {"path": str(folder / "in"), "format": "json"}},
        "sink": {"files": {"path": str(folder / "out")}},
        "checkpoint": str(folder / "checkpoint"),
    }
    return Pipeline.from_dict({**config, **overrides})


def test_installed_dialect_gets_no_events_unless_it_is_configured(tmp_path: Path, install: Install) -> None:
    install("acme 1.0", Greedy, FailsToMatch, InvalidPriority, FailsToBuild)
    plan = pipeline(tmp_path).plan
    assert plan.dialect_of(events(*ENVELOPE)).name == "debezium"
    assert plan.dialect_of(events("id", "name")).name == "flat"
    assert not any(
        isinstance(plugin, Greedy) for plugin in plan.plugins
    )  # so that its checks, jars and settings are not used

    plan = pipeline(tmp_path, dialects={"greedy": {}}).plan
    assert plan.dialect_of(events(*ENVELOPE)).name == "greedy"


def test_name_of_a_built_in_dialect_is_not_replaced(tmp_path: Path, install: Install) -> None:
    class Debezium(Greedy):
        name = "debezium"

    install("acme 1.0", Debezium)
    for plan in (pipeline(tmp_path).plan, pipeline(tmp_path, dialects={"debezium": {}}).plan):
        assert type(plan.dialect_of(events(*ENVELOPE))).__module__ == "headrace_sources.dialects.debezium"


def test_dialect_from_the_distribution_of_the_format_is_active(tmp_path: Path, install: Install) -> None:
    install("acme 1.0", Greedy, headrace_formats={"lines": Lines})
    install("a.other 1.0", Greedy2)
    kafka = {"bootstrap.servers": "localhost:1", "subscribe": TOPIC}
    for value, name in (("json", "debezium"), ("lines", "greedy")):
        plan = pipeline(tmp_path, source={"kafka": kafka, "value": value}).plan
        assert plan.dialect_of(events(*ENVELOPE)).name == name


@pytest.mark.parametrize(("dialect", "error"), [(FailsToBuild, "cannot be built: RuntimeError: not yet"), (InvalidPriority, "a priority that is not a number: 'first'")])  # fmt: skip
def test_configured_dialect_that_is_broken_is_reported(
    tmp_path: Path, install: Install, dialect: type[Dialect], error: str
) -> None:
    install("acme 1.0", dialect)
    with pytest.raises(PluginError) as raised:
        pipeline(tmp_path, dialects={dialect.name: {}})
    assert error in str(raised.value)
    assert "of acme 1.0" in str(raised.value)


def test_configured_dialect_that_fails_to_match_is_reported(tmp_path: Path, install: Install) -> None:
    install("acme 1.0", FailsToMatch)
    with pytest.raises(HeadraceError) as raised:
        pipeline(tmp_path, dialects={"unsure": {}}).plan.dialect_of(events(*ENVELOPE))
    assert str(raised.value).startswith(f"topic {TOPIC}: the dialect 'unsure' failed to match events: SystemExit")


def test_installed_dialects_are_the_fallback_for_unknown_shapes(
    tmp_path: Path, install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADRACE_DISABLE_PLUGINS", "flat")
    install("acme 1.0", Greedy, FailsToMatch)
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
def test_check_lists_other_matching_dialects(tmp_path: Path, spark: SparkSession, install: Install) -> None:
    install("acme 1.0", Greedy, FailsToMatch, FailsToBuild)
    (tmp_path / "in" / TOPIC).mkdir(parents=True)
    event = {"op": "c", "before": None, "after": {"id": 1}, "source": {"lsn": 8}}
    (tmp_path / "in" / TOPIC / "one.json").write_text(json.dumps(event) + "\n")
    overrides = {"tables": [{"source": "*", "key": "id"}]}
    found = {item.found for item in pipeline(tmp_path, **overrides).check(spark) if item.what == f"topic {TOPIC}"}
    error = "the dialect 'greedy' of acme 1.0 also matches these events, but is not used; to use it, set `dialects: {greedy: {}}`"
    assert error in found
    assert len(found) == 2
