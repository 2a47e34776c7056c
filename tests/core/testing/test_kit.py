"""The kit passes a sink that is right, and every one of its tests fails a sink that breaks what it tests."""

from __future__ import annotations

import inspect
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import pytest
from tests.support.broken_sinks import BROKEN, Modest
from tests.support.memory_sink import MemorySink

from headrace.sdk.sink import Sink
from headrace.spark.sessions import Sessions
from headrace.testing.plugins import PluginConformance
from headrace.testing.sinks import SinkConformance
from headrace.testing.stream import Stream
from headrace.testing.tables import Target

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.one_spark]

#: Whether a plan refuses a mode is the plan's to keep: no sink can break it.
PLANS = {"test_mode_upsert_is_refused", "test_deletes_are_refused"}


@pytest.fixture(scope="session")
def headrace_spark(spark: SparkSession) -> SparkSession:
    return spark


class TestMemory(SinkConformance):
    plugin_class: ClassVar[type[Sink]] = MemorySink

    def config(self, folder: Path) -> Mapping[str, Any]:
        return {"store": str(folder)}


def test_every_test_has_a_sink_that_it_fails() -> None:
    tests = {name for name in set(dir(SinkConformance)) - set(dir(PluginConformance)) if name.startswith("test_")}
    assert tests - PLANS == set(BROKEN)


@pytest.mark.parametrize(
    ("test", "broken"),
    [pytest.param(test, sink, id=sink.__name__) for test, sinks in BROKEN.items() for sink in sinks],
)
def test_a_broken_sink_fails(
    test: str, broken: type[Sink], spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Kit(TestMemory):
        plugin_class = broken

    sink = broken({"store": uuid.uuid4().hex})
    session = Sessions(spark).of("broken")
    fixtures = {
        "sink": sink,
        "target": Target(sink, session),
        "stream": Stream(sink, spark, tmp_path),
        "headrace_spark": spark,
        "tmp_path": tmp_path,
        "monkeypatch": monkeypatch,
    }
    with pytest.raises((AssertionError, Exception)):
        _run(getattr(Kit(), test), fixtures)


def test_what_is_not_claimed_is_not_collected() -> None:
    class Kit(TestMemory):
        plugin_class = Modest

    def is_collected(kit: type[SinkConformance], test: str) -> bool:
        return callable(getattr(kit, test))

    assert is_collected(TestMemory, "test_a_late_row_loses")
    assert not is_collected(Kit, "test_a_late_row_loses")
    assert not is_collected(TestMemory, "test_mode_upsert_is_refused")
    assert is_collected(Kit, "test_mode_upsert_is_refused")


def _run(method: Any, fixtures: Mapping[str, Any]) -> None:
    """A test as pytest runs it: with the fixtures that it asks for, once for each of its parameters."""
    parameters: list[dict[str, Any]] = [{}]
    for mark in getattr(method, "pytestmark", []):
        names, values = mark.args
        parameters = [dict(zip(names, value, strict=True)) for value in values]
    for given in parameters:
        method(**{name: {**fixtures, **given}[name] for name in inspect.signature(method).parameters})
