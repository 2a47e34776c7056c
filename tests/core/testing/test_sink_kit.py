"""Sink kit: a correct sink passes, and each test fails for a sink that is broken in that way."""

from __future__ import annotations

import inspect
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import pytest
from tests.support.broken_sinks import ALSO_FAILED, BROKEN, MinimalSink, UsesTheActiveSession
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

#: Tests that no sink can break: plans reject modes, and a sink in memory holds all rows.
UNBREAKABLE = {
    *("test_mode_upsert_is_rejected", "test_deletes_are_rejected"),
    "test_large_batch_is_not_collected_in_the_driver",
}


@pytest.fixture(scope="session")
def headrace_spark(spark: SparkSession) -> SparkSession:
    return spark


class Memory(SinkConformance):
    plugin_class: ClassVar[type[Sink]] = MemorySink
    large = 0  # its tables are in this process
    faults = 100  # every step
    steps = ("tests.support.memory_sink.commit",)

    def config(self, folder: Path) -> Mapping[str, Any]:
        return {"store": str(folder)}


#: Tests with many batches.
SLOW = list_tests(HistoryConformance) | list_tests(InterruptionConformance)


#: Sink → the tests that must fail.
EXPECTED: dict[type[Sink], list[str]] = {}
for _test, _sinks in BROKEN.items():
    for _sink in _sinks:
        EXPECTED.setdefault(_sink, []).append(_test)


def kit_of(sink: type[Sink]) -> type[Memory]:
    return type("Kit", (Memory,), {"plugin_class": sink})


def list_applying(kit: type[Memory]) -> list[str]:
    """Return the tests of sinks that apply to this kit."""
    return sorted(test for test in list_tests(SinkConformance) if callable(getattr(kit, test)))


def assign_passing_tests() -> dict[type[Sink], str]:
    """Return one fast test per sink that must pass, in rotation. Running all tests on all sinks takes an hour."""
    assigned: dict[type[Sink], str] = {}
    for number, (sink, failing) in enumerate(EXPECTED.items()):
        if sink is not UsesTheActiveSession:  # it passes only by chance
            excluded = {*failing, *SLOW, *ALSO_FAILED.get(sink, ())}
            others = [test for test in list_applying(kit_of(sink)) if test not in excluded]
            assigned[sink] = others[number % len(others)]
    return assigned


SHARED = assign_passing_tests()


@pytest.mark.nightly
class TestMemory(Memory):
    """Kit of a correct sink, with the slow tests and those that no broken sink runs in rotation."""


for _test in {*SHARED.values(), *list_tests(PluginConformance)}:
    setattr(TestMemory, _test, None)


class Collects(FilesSink):
    """Sink that collects rows in the driver, and is correct otherwise."""

    def write(self, table: Table, rows: DataFrame, batch: Batch) -> WriteResult:
        return super().write(table, rows.sparkSession.createDataFrame(rows.collect(), rows.schema), batch)


class KitRunner:
    """Runner of single tests of the kit on a sink, each with new fixtures."""

    def __init__(self, sink: type[Sink], spark: SparkSession, folder: Path) -> None:
        self._kit = kit_of(sink)
        self._spark, self._folder, self._session = spark, folder, Sessions(spark).of("broken")

    def fail(self, test: str) -> str | None:
        """Return the failure of a test; None if it passes."""
        kit, method = self._kit(), getattr(self._kit, test)
        for parameters in _list_parameters(method):
            folder = self._folder / uuid.uuid4().hex
            folder.mkdir()
            with pytest.MonkeyPatch.context() as monkeypatch:
                fixtures = {**self._make_fixtures(kit, folder), "monkeypatch": monkeypatch, **parameters}
                arguments = {name: fixtures[name] for name in [*inspect.signature(method).parameters][1:]}
                try:
                    method(kit, **arguments)
                except Exception as error:  # noqa: BLE001 - any way to fail
                    return repr(error)
                finally:
                    # Rows that a broken sink leaves cached replace equal plans of other sinks.
                    self._session.catalog.clearCache()
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
    """Return the parameters of a test, in the same way as pytest."""
    for mark in getattr(method, "pytestmark", []):
        names, values = mark.args
        return [dict(zip(names, value, strict=True)) for value in values]
    return [{}]


def test_each_test_fails_for_a_broken_sink() -> None:
    assert list_tests(SinkConformance) - UNBREAKABLE == set(BROKEN)


@pytest.mark.parametrize("broken", nightly_after(1, EXPECTED), ids=lambda sink: sink.__name__)
def test_broken_sink_fails_the_expected_tests(broken: type[Sink], spark: SparkSession, tmp_path: Path) -> None:
    runner = KitRunner(broken, spark, tmp_path)
    assert [test for test in EXPECTED[broken] if runner.fail(test) is None] == []
    if other := SHARED.get(broken):
        assert (other, runner.fail(other)) == (other, None)


def test_rows_collected_in_the_driver_are_detected(spark: SparkSession, tmp_path: Path) -> None:
    class Kit(Memory):
        large = 20_000

    session = Sessions(spark).of("broken")
    test = Kit().test_large_batch_is_not_collected_in_the_driver
    test(Target(FilesSink(path=str(tmp_path)), session))
    with pytest.raises(AssertionError, match="the sink collects the rows in the driver"):
        test(Target(Collects(path=str(tmp_path)), session))


def test_tests_of_unclaimed_capabilities_are_not_collected() -> None:
    class Kit(Memory):
        plugin_class = MinimalSink

    def is_collected(kit: type[SinkConformance], test: str) -> bool:
        return callable(getattr(kit, test))

    assert is_collected(Memory, "test_late_row_is_ignored")
    assert not is_collected(Kit, "test_late_row_is_ignored")
    assert not is_collected(Memory, "test_mode_upsert_is_rejected")
    assert is_collected(Kit, "test_mode_upsert_is_rejected")
