"""Queries of ranged sources, which have the same handle, triggers, batch IDs and crash behavior as native ones."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.support import ranged
from tests.support.orders import KINDS, TRIGGER, Orders
from tests.support.ranged import LinesSource, PausableSink, append
from tests.support.spark_conf import interpret_plans
from tests.support.tiers import nightly_after
from tests.support.waiting import stop_at_end, until

from headrace import ConfigError, DataError, FatalError, HeadraceError, RetriableError
from headrace.checkpoint.offset_log import OffsetLog
from headrace.config.settings import Settings
from headrace.engine.plan import retry
from headrace.engine.run import query as engine
from headrace.engine.run.native_query import NativeQuery
from headrace.engine.run.query import Query
from headrace.progress.model import BatchProgress
from headrace.progress.status import Status
from headrace.sdk.events import Events
from headrace.sdk.interval import seconds_of
from headrace.sdk.source import Source, SourceContext
from headrace.spark.storage import Folder
from headrace_sinks.files import FilesSink
from headrace_sources.transports.files import FilesSource
from headrace_transforms import Rename

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.one_spark

ROOT = Path(__file__).parents[4]


@pytest.fixture
def orders(tmp_path: Path, request: pytest.FixtureRequest) -> Orders:
    return Orders(tmp_path / "orders", getattr(request, "param", "ranged"))


both_kinds = pytest.mark.parametrize("orders", nightly_after(1, KINDS), indirect=True)


def snapshot(folder: Path) -> dict[str, int]:
    return {str(path.relative_to(folder)): path.stat().st_mtime_ns for path in folder.rglob("*")}


@pytest.mark.spark
def test_batch_repeats_the_same_range_after_a_kill(spark: SparkSession, tmp_path: Path) -> None:
    orders = Orders(tmp_path / "orders", "ranged", limit=4)
    orders.add(*range(1, 7))
    orders.hold.touch()
    arguments = [str(path) for path in (orders.log, orders.checkpoint, orders.folder, orders.hold)]
    interpreted = interpret_plans(tmp_path / "conf")
    with kill_at_end([sys.executable, "-m", "tests.support.ranged", *arguments], interpreted) as process:
        orders.in_hand()
        until(lambda: orders.read_batches("first") == {0: [1, 2, 3, 4]}, "the batch in the sink that is not blocked")
        assert process.poll() is None
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(30)
    planned = (orders.checkpoint / "ranged/offsets/0").read_text()
    assert json.loads(planned) == {"start": {"line": 0}, "end": {"line": 4}}
    assert not (orders.checkpoint / "ranged/commits").exists()
    assert orders.read_batches("second") == {}

    orders.add(*range(7, 11))
    orders.hold.unlink()
    source = LinesSource(path=str(orders.log), limit=5)
    sinks = [
        FilesSink(path=str(orders.folder / "first")),
        PausableSink(orders.hold, path=str(orders.folder / "second")),
    ]
    batches: list[int] = []
    ranged.pipeline(source, sinks, orders.checkpoint).run(spark, on_progress=lambda p: batches.append(p.batch))

    assert (orders.checkpoint / "ranged/offsets/0").read_text() == planned
    assert batches == [0, 1, 2]
    assert (
        orders.read_batches("first") == orders.read_batches("second") == {0: [1, 2, 3, 4], 1: [5, 6, 7, 8, 9], 2: [10]}
    )
    assert source.committed == [4, 9, 10]


@contextmanager
def kill_at_end(command: list[str], environment: Mapping[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """Start a process with its JVM in a new process group, and kill the group at the end."""
    with subprocess.Popen(command, cwd=ROOT, env={**os.environ, **environment}, start_new_session=True) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)


@pytest.mark.spark
@both_kinds
def test_each_available_now_run_applies_new_records_and_ends(spark: SparkSession, orders: Orders) -> None:
    empty = orders.pipeline().run(spark)
    assert (empty.batches, orders.ids()) == (0, [])
    orders.add(1, 2)
    orders.add(3)
    first = orders.pipeline().run(spark)
    assert first.batches == 1
    repeated = orders.pipeline().run(spark)
    assert repeated.batches == 0
    orders.add(4)
    query = orders.start(spark, None)
    assert query.await_termination(60)
    assert not query.is_active
    assert [p.batch for p in query.recent_progress] == [1]
    assert orders.read_batches() == {0: [1, 2, 3], 1: [4]}


@pytest.mark.nightly
@pytest.mark.spark
def test_available_now_applies_only_records_present_at_the_start(spark: SparkSession, orders: Orders) -> None:
    orders.add(1, 2, 3)

    def grow(progress: BatchProgress) -> None:
        orders.add(10 + progress.batch)

    orders.pipeline(orders.source(limit=2)).run(spark, on_progress=grow)
    assert orders.read_batches() == {0: [1, 2], 1: [3]}


@pytest.mark.spark
@both_kinds
def test_continuous_run_applies_new_records(spark: SparkSession, orders: Orders) -> None:
    with stop_at_end(orders.start(spark)) as query:
        assert (query.is_active, query.last_progress, query.exception) == (True, None, None)
        assert query.status == Status(active=True, message="waiting for data", batch=None, latency_ms=None)
        assert query.await_termination(0) is query.await_termination(0.1) is False
        orders.add(1)
        until(lambda: orders.ids() == [1], "the first order")
        orders.hold.touch()
        orders.add(2, 3)
        until(lambda: query.status.message == "applying batch 1", "the second batch")
        orders.hold.unlink()
        until(lambda: len(query.recent_progress) == 2, "the second batch's progress")
        last = query.last_progress
        assert last is not None
        assert (last.batch, last.tables[0].rows_in) == (1, 2)
        assert query.status.batch == 1
    assert query.await_termination(1)
    assert replace(query.status, tables=()) == Status(active=False, message="stopped", batch=1, latency_ms=None)
    assert [(table.sink, table.lag, table.latency_ms) for table in query.status.tables] == [("held", None, None)]
    assert query.exception is None
    assert orders.read_batches() == {0: [1], 1: [2, 3]}


@pytest.mark.spark
@both_kinds
def test_batches_keep_the_trigger_interval_and_apply_all_new_records(spark: SparkSession, orders: Orders) -> None:
    orders.add(1)
    pipeline = replace(orders.pipeline(), settings=Settings(min_sync_interval="3 seconds"))
    with stop_at_end(pipeline.start(spark, TRIGGER)) as query:
        until(lambda: query.recent_progress, "the first batch")
        orders.add(2)
        orders.add(3)
        until(lambda: len(query.recent_progress) == 2, "the second batch")
        first, second = (datetime.fromisoformat(batch.started) for batch in query.recent_progress)
        assert (second - first).total_seconds() >= 2.9
    assert orders.read_batches() == {0: [1], 1: [2, 3]}


@pytest.mark.spark
@both_kinds
def test_stop_does_not_wait_for_the_next_trigger(spark: SparkSession, orders: Orders) -> None:
    orders.add(1)
    with stop_at_end(
        replace(orders.pipeline(), settings=Settings(min_sync_interval="1 day")).start(spark, TRIGGER)
    ) as query:
        until(lambda: query.recent_progress, "the first batch")
    assert orders.read_batches() == {0: [1]}


@pytest.mark.nightly
@pytest.mark.spark
@both_kinds
def test_idle_pipeline_writes_nothing(spark: SparkSession, orders: Orders) -> None:
    orders.add(1)
    source = orders.source()
    with stop_at_end(orders.start(spark, "50 milliseconds", source=source)) as query:
        until(lambda: query.last_progress, "the only batch")
        assert not query.await_termination(1)
        before = snapshot(orders.checkpoint)
        assert not query.await_termination(2)
        assert snapshot(orders.checkpoint) == before
        if isinstance(source, LinesSource):
            assert source.asked > 20
        orders.add(2)
        until(lambda: orders.ids() == [1, 2], "an order after the pause")


@pytest.mark.spark
@both_kinds
def test_stop_completes_the_running_batch(spark: SparkSession, orders: Orders) -> None:
    orders.add(1)
    orders.hold.touch()
    query = orders.start(spark)
    with stop_at_end(query):
        orders.in_hand()
        stopper = threading.Thread(target=query.stop)
        stopper.start()
        orders.add(2)
        stopper.join(1)
        assert (stopper.is_alive(), query.is_active) == (True, True)
        orders.hold.unlink()
        stopper.join(30)
        assert (stopper.is_alive(), query.is_active) == (False, False)
    assert query.await_termination(0)
    assert orders.read_batches() == {0: [1]}
    orders.pipeline().run(spark)
    assert orders.read_batches() == {0: [1], 1: [2]}


@pytest.mark.nightly
@pytest.mark.spark
@both_kinds
def test_stop_is_possible_from_inside_a_batch(spark: SparkSession, orders: Orders) -> None:
    orders.add(1)
    started: list[Query] = []
    started_batch = threading.Event()

    def stop_after_first_batch(progress: BatchProgress) -> None:
        assert started_batch.wait(60)
        started[0].stop()

    with stop_at_end(orders.start(spark, on_progress=stop_after_first_batch)) as query:
        started.append(query)
        started_batch.set()
        assert query.await_termination(60)
    assert query.exception is None
    orders.add(2)
    orders.pipeline().run(spark)
    assert orders.read_batches() == {0: [1], 1: [2]}


@pytest.mark.nightly
@pytest.mark.spark
def test_stop_during_a_call_of_the_source(spark: SparkSession, orders: Orders) -> None:
    source = LinesSource(path=str(orders.log))
    query = orders.start(spark, source=source)
    with stop_at_end(query):
        source.answers.clear()
        asked = source.asked
        until(lambda: source.asked > asked, "a call of the source")
        stopper = threading.Thread(target=query.stop)
        stopper.start()
        orders.add(1)
        until(query._state.is_stopping, "the stop request")
        source.answers.set()
        stopper.join(60)
        assert not stopper.is_alive()
    assert orders.read_batches() == {}
    orders.pipeline().run(spark)
    assert orders.read_batches() == {0: [1]}


@pytest.mark.spark
@pytest.mark.parametrize("orders", ["native"], indirect=True)
def test_stop_while_spark_starts_the_next_batch(
    spark: SparkSession, orders: Orders, monkeypatch: pytest.MonkeyPatch
) -> None:
    second, apply, await_commit = threading.Event(), Query._run_batch, NativeQuery._await_commit

    def apply_and_signal(self: Query, frame: DataFrame, batch_id: int) -> None:
        if batch_id == 1:
            second.set()
        apply(self, frame, batch_id)

    def late(self: NativeQuery) -> None:
        assert second.wait(60)
        await_commit(self)

    monkeypatch.setattr(Query, "_run_batch", apply_and_signal)
    monkeypatch.setattr(NativeQuery, "_await_commit", late)
    orders.add(1)
    orders.add(2)
    orders.hold.touch()
    query = orders.start(spark, source=orders.source(maxFilesPerTrigger=1))
    orders.in_hand()
    stopper = threading.Thread(target=query.stop, daemon=True)
    stopper.start()
    until(query._state.is_stopping, "the stop request")
    orders.hold.unlink()
    stopper.join(60)
    assert not stopper.is_alive()
    assert query.exception is None
    assert orders.read_batches() == {0: [1]}
    orders.pipeline().run(spark)
    assert orders.read_batches() == {0: [1], 1: [2]}


@pytest.mark.spark
@pytest.mark.parametrize("failure", nightly_after(1, [ValueError("the tape is torn"), FatalError("the tape is torn")]))
def test_failure_of_the_source_ends_the_run(spark: SparkSession, orders: Orders, failure: Exception) -> None:
    source = LinesSource(path=str(orders.log))
    source.failures = [failure]
    query = orders.start(spark, source=source)
    with pytest.raises(FatalError, match=r"source lines: the tape is torn"):
        query.await_termination(60)
    assert isinstance(query.exception, FatalError)
    assert query.status == Status(active=False, message="stopped: the tape is torn", batch=None, latency_ms=None)
    orders.add(1)
    orders.pipeline().run(spark)
    assert orders.read_batches() == {0: [1]}


@pytest.mark.spark
@both_kinds
def test_failure_outside_a_batch_is_reported_by_the_handle(
    spark: SparkSession, orders: Orders, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The exception is available although no caller waits for the end."""
    with stop_at_end(orders.start(spark)) as query:
        orders.add(1)
        until(lambda: query.last_progress, "the first batch")
        damage(orders)
        orders.add(2)
        until(lambda: not query.is_active, "the end")
        assert isinstance(query.exception, HeadraceError)
        assert query.status.message.startswith("stopped: ")
    assert orders.read_batches() == {0: [1]}


def damage(orders: Orders) -> None:
    """Replace the folder of planned ranges with a file."""
    offsets = orders.checkpoint / ("ranged" if orders.kind == "ranged" else "stream") / "offsets"
    offsets.rename(orders.checkpoint / "moved")
    offsets.touch()


@pytest.mark.spark
def test_retriable_error_of_the_source_is_retried(
    spark: SparkSession, orders: Orders, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retry, "FIRST_PAUSE_SECONDS", 0.01)
    orders.add(1)
    source = LinesSource(path=str(orders.log))
    source.failures = [RetriableError("busy"), RetriableError("busy")]
    orders.pipeline(source).run(spark)
    assert orders.read_batches() == {0: [1]}
    source.failures = [RetriableError(f"busy {n}") for n in range(10)]
    with pytest.raises(RetriableError, match="busy 3"):
        orders.pipeline(source).run(spark)


@pytest.mark.spark
def test_run_continues_when_an_unreachable_source_recovers(
    spark: SparkSession, orders: Orders, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retry, "FIRST_PAUSE_SECONDS", 0.01)
    monkeypatch.setattr(engine, "FIRST_PAUSE_SECONDS", 0.01)
    monkeypatch.setattr(engine, "LONGEST_PAUSE_SECONDS", 0.1)
    source = LinesSource(path=str(orders.log))
    source.failures = [RetriableError("busy")] * 10
    with pytest.raises(RetriableError, match="busy"):  # a source that has never responded is not retried
        orders.start(spark, source=source).await_termination(60)
    source.failures = []
    orders.add(1)
    with stop_at_end(orders.start(spark, source=source)) as query:
        until(lambda: orders.ids() == [1], "the first batch")
        source.failures = [RetriableError(f"busy {n}", fix="wait") for n in range(1000)]
        until(lambda: query.status.message.startswith("retrying: busy "), "the error of the source")
        assert "fix: wait" in (query.status.error or "")
        assert query.is_active
        orders.add(2)
        source.failures = []
        until(lambda: orders.ids() == [1, 2], "the second batch")
        assert query.status.error is None
        source.failures = [RetriableError("busy")] * 10_000
        until(lambda: query.status.error is not None, "the error of the source")
    assert query.exception is None


class CutLines(LinesSource):
    """Source whose lines cannot be continued."""

    def open(self, spark: SparkSession) -> None:
        raise DataError("the log was cut")


class CutFiles(FilesSource):
    """Source whose stream cannot be continued."""

    def check_stream(self, context: SourceContext) -> None:
        raise DataError("the log was cut")


class UnreadableFiles(FilesSource):
    """Source whose columns cannot be read."""

    def known_schemas(self, context: SourceContext) -> list[Events]:
        raise DataError("the log was cut")


@pytest.mark.spark
@pytest.mark.parametrize("made", nightly_after(1, [CutLines, CutFiles, UnreadableFiles]))
def test_error_of_the_data_at_the_start_ends_the_run(spark: SparkSession, tmp_path: Path, made: type[Source]) -> None:
    is_ranged = made is CutLines
    orders = Orders(tmp_path / "orders", "ranged" if is_ranged else "native")
    orders.add(1)
    source = made(path=str(orders.log)) if is_ranged else made(path=str(orders.landing), format="json")
    pipeline = replace(orders.pipeline(source), transforms=[Rename(columns={"item": "name"})])
    for query in (pipeline.start(spark, TRIGGER), pipeline.start_available_now(spark)):
        with pytest.raises(DataError, match="the log was cut"):
            query.await_termination(60)
        query.stop()
        assert (query.is_active, query.status.message) == (False, "stopped: the log was cut")
    orders.pipeline().run(spark)
    assert orders.read_batches() == {0: [1]}


@pytest.mark.spark
def test_stream_from_the_latest_offset_keeps_its_first_start(spark: SparkSession, orders: Orders) -> None:
    orders.add(1)
    orders.pipeline(orders.source(startingOffsets="latest")).run(spark)
    orders.add(2)
    orders.pipeline(orders.source(startingOffsets="latest")).run(spark)
    assert orders.read_batches() == {0: [2]}


@pytest.mark.spark
def test_applied_offsets_are_committed_again_at_the_next_start(spark: SparkSession, orders: Orders) -> None:
    """A crash is possible between the end of a batch and the commit of the source."""
    orders.add(1, 2)
    orders.pipeline().run(spark)
    source = LinesSource(path=str(orders.log))
    orders.pipeline(source).run(spark)
    assert source.committed == [2]


@pytest.mark.spark
@both_kinds
def test_checkpoint_allows_one_run_at_a_time(spark: SparkSession, orders: Orders) -> None:
    with stop_at_end(orders.start(spark)):
        with pytest.raises(ConfigError, match=r"is in use by another run(.|\n)*fix: "):
            orders.start(spark)
        orders.add(1)
        until(lambda: orders.ids() == [1], "a batch of the first run")
    orders.add(2)
    orders.pipeline().run(spark)
    assert orders.ids() == [1, 2]


@pytest.mark.spark
def test_two_processes_cannot_plan_the_same_batch(spark: SparkSession, tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    append(log, [1])
    source = LinesSource(path=str(log))
    latest = partial(source.latest, limit=None)
    first, second = (OffsetLog(Folder(spark, str(tmp_path / "ranged"))) for _ in range(2))
    taken = first.next(source.initial, latest)
    assert taken is not None
    first.commit(taken)
    append(log, [2])
    with pytest.raises(ConfigError, match="is in use by another run"):
        second.next(source.initial, latest)
    assert json.loads((tmp_path / "ranged/offsets/0").read_text())["end"] == {"line": 1}


@pytest.mark.spark
def test_damaged_range_is_rejected(spark: SparkSession, orders: Orders) -> None:
    orders.add(1)
    orders.pipeline().run(spark)
    (orders.checkpoint / "ranged/offsets/.0.crc").unlink(missing_ok=True)
    (orders.checkpoint / "ranged/offsets/0").write_text("{")
    with pytest.raises(ConfigError, match=r"offsets/0: is damaged"):
        orders.pipeline().run(spark)


@pytest.mark.nightly
@pytest.mark.spark
def test_old_ranges_are_removed(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.checkpoint.offset_log.KEPT_RANGES", 2)
    orders = Orders(tmp_path / "orders", "ranged", limit=1)
    orders.add(*range(5))
    orders.pipeline().run(spark)
    for folder in ("offsets", "commits"):
        names = [path.name for path in (orders.checkpoint / "ranged" / folder).iterdir() if path.name.isdigit()]
        assert sorted(names) == ["3", "4"]
    orders.add(5)
    orders.pipeline().run(spark)
    assert orders.read_batches() == {n: [n] for n in range(6)}


@pytest.mark.nightly
@pytest.mark.spark
def test_native_and_ranged_pipelines_run_concurrently(spark: SparkSession, tmp_path: Path) -> None:
    pipelines = [Orders(tmp_path / f"{kind}{n}", kind) for kind in KINDS for n in range(2)]
    with ExitStack() as stack:
        queries = [stack.enter_context(stop_at_end(orders.start(spark))) for orders in pipelines]
        for n, orders in enumerate(pipelines):
            orders.add(n, n + 10)
        for n, orders in enumerate(pipelines):
            until(lambda orders=orders, n=n: orders.ids() == [n, n + 10], "the new records")  # type: ignore[misc]
        queries[0].stop()
        assert [query.is_active for query in queries] == [False, True, True, True]
        pipelines[-1].add(99)
        until(lambda: 99 in pipelines[-1].ids(), "new records after the other query was stopped")


@pytest.mark.spark
@both_kinds
def test_invalid_trigger_is_rejected(spark: SparkSession, orders: Orders) -> None:
    with pytest.raises(ConfigError, match="'soon' is not an interval"):
        orders.start(spark, "soon")


@pytest.mark.parametrize(
    ("interval", "seconds"),
    [
        ("200 milliseconds", 0.2),
        ("10 seconds", 10),
        ("1 second", 1),
        ("0 seconds", 0),
        ("1 minute 30 seconds", 90),
        ("2 hours", 7200),
        ("0.5 s", 0.5),
        ("500ms", 0.5),
        ("5m", 300),
    ],
)
def test_interval_is_parsed(interval: str, seconds: float) -> None:
    assert seconds_of(interval) == seconds


@pytest.mark.parametrize("interval", ["", "10", "seconds", "10 fortnights", "10 seconds or so", "-1 second"])
def test_invalid_interval_is_rejected(interval: str) -> None:
    with pytest.raises(ConfigError, match=r"fix: .*10 seconds"):
        seconds_of(interval)
