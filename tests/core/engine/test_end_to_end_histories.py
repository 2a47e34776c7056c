"""Random histories of a database, its connector, its topics and two sinks.

After every history, the tables contain each sent change once.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
import uuid
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random, SystemRandom
from typing import TYPE_CHECKING

import pyspark
import pytest
from tests.support.memory_sink import MemorySink
from tests.support.world import TABLES, DatabaseModel, Shape
from tests.support.world_history import SHARED, History, Step, history
from tests.support.world_run import Run, make_failing

from headrace.engine.run import catch_up
from headrace.sdk.sink import Sink
from headrace_sinks.delta import DeltaSink
from headrace_sinks.files import FilesSink
from headrace_sinks.hudi import HudiSink
from headrace_sinks.iceberg import IcebergSink

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(3600)]

SPARK_4 = pyspark.__version__.startswith("4.")
#: Factor of the number of histories. Workers may share them (--dist load).
PARTS = os.environ.get("HEADRACE_HISTORIES")
repeated = pytest.mark.parametrize("part", range(int(PARTS or "1")))
#: Seed of a single history, to reproduce a failure.
SEED = os.environ.get("HEADRACE_WORLD")


@pytest.fixture(autouse=True)
def _long_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Retry failed tables only when the history requests it."""
    monkeypatch.setattr(catch_up, "FIRST_PAUSE_SECONDS", 600.0)
    monkeypatch.setattr(catch_up, "LONGEST_PAUSE_SECONDS", 600.0)


FirstMemory, SecondMemory = make_failing(MemorySink, "first"), make_failing(MemorySink, "second")
Iceberg, Hudi = make_failing(IcebergSink, "first"), make_failing(HudiSink, "first")
Files, Delta = make_failing(FilesSink, "first"), make_failing(DeltaSink, "first")


def with_changes(mode: str) -> dict[str, object]:
    """Return the options of a sink with the mode, and with a change feed in mode ``upsert``."""
    return {"mode": mode, "changes": mode == "upsert"}


def draw_seeds(count: int, skip: int) -> list[int]:
    """Return random seeds if many histories run, and fixed ones otherwise.

    Fixed seeds ensure that a change fails only because of its own bugs.
    """
    chance = SystemRandom() if PARTS else Random(1)
    return [chance.getrandbits(48) for _ in range(skip + count)][skip:]


def check(
    spark: SparkSession,
    count: int,
    make_sink: Callable[[str, str], Sink],
    skip: int = 0,
    shared: tuple[str | None, ...] = SHARED,
) -> None:
    """Run ``count`` histories.

    ``make_sink`` returns the first sink for a folder and a mode. The second sink is in memory. ``shared``: choices of
    ``Shape.shared``.
    """
    began, batches = time.monotonic(), 0
    seeds = [int(SEED)] if SEED else draw_seeds(count, skip)
    for seed in seeds:
        drawn = history(seed, shared)
        modes = drawn.world.shape.modes
        with tempfile.TemporaryDirectory() as folder:
            second = {"store": uuid.uuid4().hex, **with_changes(modes[1])}
            sinks = make_sink(folder, modes[0]), SecondMemory(second)
            run = Run(drawn, sinks, spark, Path(folder))
            try:
                run.go()
                run.check()
            except Exception as error:
                # The seed is printed immediately, because an interrupted run prints nothing later.
                sys.stdout.write(f"HEADRACE_WORLD={seed} reproduces the failed history\n")
                raise AssertionError(f"{error}\n\n{drawn!r}") from error
            finally:
                run.stop()
        batches += len(run.batches)
    sys.stdout.write(f"{len(seeds)} histories, {batches} batches, {time.monotonic() - began:.0f} s\n")


@pytest.mark.one_spark
def test_joined_backlog_survives_the_repetition_of_its_last_batch(spark: SparkSession, tmp_path: Path) -> None:
    shape = Shape("postgresql", False, TABLES, None, False, ("changelog", "changelog"))
    world = DatabaseModel(shape, Random(1), 1)
    run = Run(History(0, world, ()), [Files({"path": f"{tmp_path}/out", "mode": "changelog"})], spark, tmp_path)

    def make_batch(number: int) -> Step:
        for table in TABLES:
            world.put(table, number)
            world.truncate(table)  # a truncate is a dead letter if rows are appended
        return Step("batch", ends=world.ends())

    try:
        run.take(make_batch(1))
        run.take(Step("break", sink=0, tables=TABLES[:1], when="before"))
        for number in (2, 3):
            run.take(make_batch(number))
        last = make_batch(4)
        run.apply(last, notes=False)  # the process is killed before the batch is recorded as done
        run.take(replace(last, what="mend"))
        run.take(last)
        assert run.dead_letters() == run.expect_dead_letters()
    finally:
        run.stop()
    files = (tmp_path / "out/w/people").glob("_headrace_batch=*/*.json")
    lines = [line for file in files for line in file.read_text().splitlines()]
    assert sorted(json.loads(line)["id"] for line in lines) == [1, 2, 3, 4]


@pytest.mark.one_spark
@repeated
def test_history_in_memory(spark: SparkSession, part: int) -> None:
    # The other sinks run the first history, which tests the same steps of the engine.
    count = 2 if PARTS else 1
    check(spark, count, lambda _, mode: FirstMemory({"store": uuid.uuid4().hex, "mode": mode}), skip=1)


@pytest.mark.nightly
@pytest.mark.one_spark
@repeated
@pytest.mark.parametrize("shared", ["merged", "logical"])
def test_history_of_two_sources_in_one_table(spark: SparkSession, part: int, shared: str) -> None:
    count = 2 if PARTS else 1
    check(spark, count, lambda _, mode: FirstMemory({"store": uuid.uuid4().hex, "mode": mode}), shared=(shared,))


# For the other Spark version, tests/core/upsert/test_histories.py and the kits of the sinks test upserts.
@pytest.mark.nightly
@pytest.mark.one_spark
@repeated
def test_history_in_iceberg(spark: SparkSession, part: int) -> None:
    check(spark, 1, lambda folder, mode: Iceberg({"warehouse": f"{folder}/lake", **with_changes(mode)}))


@pytest.mark.nightly
@pytest.mark.one_spark
@repeated
def test_history_in_delta(spark: SparkSession, part: int) -> None:
    check(spark, 1, lambda folder, mode: Delta({"path": f"{folder}/lake", **with_changes(mode)}))


if not SPARK_4:

    @pytest.mark.nightly
    @repeated
    def test_history_in_hudi(spark: SparkSession, part: int) -> None:
        check(spark, 1, lambda folder, mode: Hudi({"path": f"{folder}/lake", **with_changes(mode)}))
