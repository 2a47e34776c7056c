"""The kit passes a sink that is right, and every one of its tests fails a sink that breaks what it tests."""

from __future__ import annotations

import inspect
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import pytest
from tests.support.broken_sinks import BROKEN, Modest, UsesTheActiveSession
from tests.support.kit_run import list_tests
from tests.support.memory_sink import MemorySink
from tests.support.tiers import nightly_after

from headrace.sdk.sink import Batch, Sink, Table, WriteResult
from headrace.spark.sessions import Sessions
from headrace.testing._internal.fault_injection import FaultInjection, InterruptionConformance
from headrace.testing._internal.histories import HistoryConformance
from headrace.testing._internal.stream import Stream
from headrace.testing.plugins import PluginConformance
from headrace.testing.sinks import SinkConformance
from headrace.testing.tables import Target
from headrace_sinks.files import FilesSink

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.one_spark]

#: Whether a plan refuses a mode is the plan's to keep: no sink can break it. A sink in memory holds all rows.
OTHERS = {
    *("test_mode_upsert_is_rejected", "test_deletes_are_rejected"),
    "test_large_batch_is_not_collected_in_the_driver",
}


@pytest.fixture(scope="session")
def headrace_spark(spark: SparkSession) -> SparkSession:
    return spark


class Memory(SinkConformance):
    plugin_class: ClassVar[type[Sink]] = MemorySink
    large = 0  # its tables are in this process
    faults = 100  # all
    steps = ("tests.support.memory_sink.commit",)

    def config(self, folder: Path) -> Mapping[str, Any]:
        return {"store": str(folder)}


#: They are many batches each.
SLOW = list_tests(HistoryConformance) | list_tests(InterruptionConformance)


#: Sink → the tests that it fails.
MEANT: dict[type[Sink], list[str]] = {}
for _test, _sinks in BROKEN.items():
    for _sink in _sinks:
        MEANT.setdefault(_sink, []).append(_test)


def kit_of(sink: type[Sink]) -> type[Memory]:
    return type("Kit", (Memory,), {"plugin_class": sink})


def list_applying(kit: type[Memory]) -> list[str]:
    """The tests of sinks that apply to the kit's."""
    return sorted(test for test in list_tests(SinkConformance) if callable(getattr(kit, test)))


def share_out() -> dict[type[Sink], str]:
    """Sink → a test that it has to pass, in turn, of those that are quick. All of all sinks would take an hour."""
    shared: dict[type[Sink], str] = {}
    for number, (sink, meant) in enumerate(MEANT.items()):
        if sink is not UsesTheActiveSession:  # where it passes is chance
            others = [test for test in list_applying(kit_of(sink)) if test not in {*meant, *SLOW}]
            shared[sink] = others[number % len(others)]
    return shared


SHARED = share_out()


@pytest.mark.nightly
class TestMemory(Memory):
    """A sink that is right passes what is slow, and what none of the others is asked in turn."""


for _test in {*SHARED.values(), *list_tests(PluginConformance)}:
    setattr(TestMemory, _test, None)


class Collects(FilesSink):
    """Takes rows into the driver's memory, and is right otherwise."""

    def write(self, table: Table, rows: DataFrame, batch: Batch) -> WriteResult:
        return super().write(table, rows.sparkSession.createDataFrame(rows.collect(), rows.schema), batch)


class Asked:
    """A sink that is asked by tests of the kit, each with all that it needs anew."""

    def __init__(self, sink: type[Sink], spark: SparkSession, folder: Path) -> None:
        self._kit = kit_of(sink)
        self._spark, self._folder, self._session = spark, folder, Sessions(spark).of("broken")

    def fail(self, test: str) -> str | None:
        """How it fails a test; None when it passes."""
        kit, method = self._kit(), getattr(self._kit, test)
        for given in _list_parameters(method):
            folder = self._folder / uuid.uuid4().hex
            folder.mkdir()
            with pytest.MonkeyPatch.context() as monkeypatch:
                fixtures = {**self._make_fixtures(kit, folder), "monkeypatch": monkeypatch, **given}
                arguments = {name: fixtures[name] for name in [*inspect.signature(method).parameters][1:]}
                try:
                    method(kit, **arguments)
                except Exception as error:  # noqa: BLE001 - any way to fail
                    return repr(error)
        return None

    def _make_fixtures(self, kit: SinkConformance, folder: Path) -> dict[str, Any]:
        sink = kit.plugin_class(kit.config(folder))
        return {
            "sink": sink,
            "session": self._session,
            "target": Target(sink, self._session),
            "stream": Stream(sink, self._spark, folder),
            "fault_injection": FaultInjection(kit, self._spark, folder),
            "headrace_spark": self._spark,
            "tmp_path": folder,
        }


def _list_parameters(method: Any) -> list[dict[str, Any]]:
    """As pytest would give them."""
    for mark in getattr(method, "pytestmark", []):
        names, values = mark.args
        return [dict(zip(names, value, strict=True)) for value in values]
    return [{}]


def test_every_test_has_a_sink_that_it_fails() -> None:
    assert list_tests(SinkConformance) - OTHERS == set(BROKEN)


@pytest.mark.parametrize("broken", nightly_after(1, MEANT), ids=lambda sink: sink.__name__)
def test_a_broken_sink_fails_the_tests_that_are_meant_for_it(
    broken: type[Sink], spark: SparkSession, tmp_path: Path
) -> None:
    asked = Asked(broken, spark, tmp_path)
    assert [test for test in MEANT[broken] if asked.fail(test) is None] == []
    if other := SHARED.get(broken):
        assert (other, asked.fail(other)) == (other, None)


def test_rows_that_are_taken_into_the_drivers_memory_are_noticed(spark: SparkSession, tmp_path: Path) -> None:
    class Kit(Memory):
        large = 20_000

    session = Sessions(spark).of("broken")
    ask = Kit().test_large_batch_is_not_collected_in_the_driver
    ask(Target(FilesSink(path=str(tmp_path)), session))
    with pytest.raises(AssertionError, match="the sink collects the rows in the driver"):
        ask(Target(Collects(path=str(tmp_path)), session))


def test_what_is_not_claimed_is_not_collected() -> None:
    class Kit(Memory):
        plugin_class = Modest

    def is_collected(kit: type[SinkConformance], test: str) -> bool:
        return callable(getattr(kit, test))

    assert is_collected(Memory, "test_late_row_is_ignored")
    assert not is_collected(Kit, "test_late_row_is_ignored")
    assert not is_collected(Memory, "test_mode_upsert_is_rejected")
    assert is_collected(Kit, "test_mode_upsert_is_rejected")
