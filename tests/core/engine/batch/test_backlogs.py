"""Backlogs of the tables that were set aside, and their catch-up."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any, cast

import pytest
from tests.support.memory_folder import MemoryFolder

from headrace.checkpoint.backlog import MAX_BATCHES, BacklogEntry
from headrace.engine.batch.backlogs import Backlogs, WaitingError
from headrace.engine.run import catch_up
from headrace.engine.run.catch_up import CatchUp
from headrace.errors import DataError, RetriableError
from headrace.spark.storage import Folder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TABLE = "shop.orders"
FULL = DataError("the disk is full")


@pytest.fixture(params=["same process", "restarted"])
def reopen(request: pytest.FixtureRequest) -> Callable[[Backlogs, MemoryFolder], Backlogs]:
    """Return a function that returns the backlogs as the same process, or the next one, has them."""
    is_restarted = request.param == "restarted"
    return lambda backlogs, folder: Backlogs(cast("Folder", folder)) if is_restarted else backlogs


def set_aside(backlogs: Backlogs, batch: int, **ranges: list[Any]) -> None:
    backlogs.set_aside(TABLE, batch, ranges, FULL, str(FULL))


def defer(backlogs: Backlogs, batch: int, **ranges: list[Any]) -> str | None:
    return backlogs.defer(TABLE, batch, lambda: ranges)


def list_ranges(backlogs: Backlogs) -> list[tuple[int, dict[str, list[Any]]]]:
    """Apply the backlog of the table; return the last batch and the ranges of each entry."""
    backlog, found = backlogs.get(TABLE), []
    while entry := backlog.begin():
        found.append((entry.last, entry.ranges))
        backlog.finish(entry)
    return found


def test_second_topic_of_a_batch_in_a_backlog_waits_for_the_first(
    reopen: Callable[[Backlogs, MemoryFolder], Backlogs],
) -> None:
    folder = MemoryFolder()
    backlogs = Backlogs(cast("Folder", folder))
    set_aside(backlogs, 9, first=[[0, 4]])
    backlogs = reopen(backlogs, folder)
    with pytest.raises(RetriableError, match=r"backlog has batch 9 or a later one without all records of batch 9"):
        backlogs.defer(TABLE, 9, lambda: {"second": [[0, 7]]}, stays_alone=True)
    with pytest.raises(RetriableError, match=f"table {TABLE}"):
        set_aside(backlogs, 9, first=[[0, 4]], second=[[0, 7]])
    assert list_ranges(backlogs) == [(9, {"first": [[0, 4]]})]


@pytest.mark.parametrize("is_started", [False, True])
def test_repeated_batch_adds_a_topic_that_could_not_be_read_before(
    reopen: Callable[[Backlogs, MemoryFolder], Backlogs], *, is_started: bool
) -> None:
    """A kill after the deferral, and before the topic was set aside."""
    folder = MemoryFolder()
    backlogs = Backlogs(cast("Folder", folder))
    set_aside(backlogs, 8, first=[[0, 4]])
    assert defer(backlogs, 9, first=[[4, 6]]) is not None
    backlogs = reopen(backlogs, folder)
    backlog = backlogs.get(TABLE)
    begun = backlog.begin()
    assert begun is not None
    if is_started:
        backlog.finish(begun)
        begun = backlog.begin()
        assert begun is not None
    assert defer(backlogs, 9, first=[["earliest", 6]], second=[[0, 7]]) is not None
    backlog.finish(begun)
    backlogs = reopen(backlogs, folder)
    assert list_ranges(backlogs) == [(9, {"first": [[4, 6]], "second": [[0, 7]]})]


def test_older_batch_waits_for_the_backlog_of_a_later_one(
    reopen: Callable[[Backlogs, MemoryFolder], Backlogs],
) -> None:
    folder = MemoryFolder()
    backlogs = Backlogs(cast("Folder", folder))
    set_aside(backlogs, 10, second=[[0, 7]])
    backlogs = reopen(backlogs, folder)
    for add in (set_aside, defer):
        with pytest.raises(RetriableError):
            add(backlogs, 9, first=[[0, 4]])
    assert list_ranges(backlogs) == [(10, {"second": [[0, 7]]})]


def test_batch_between_joined_batches_is_recognized_by_its_ranges() -> None:
    backlogs = Backlogs(cast("Folder", MemoryFolder()))
    set_aside(backlogs, 1, first=[1])
    for batch in range(2, MAX_BATCHES):
        defer(backlogs, batch, first=[batch])
    assert defer(backlogs, 50, first=[50]) is not None
    with pytest.raises(RetriableError):
        defer(backlogs, 50, second=[50])
    assert [number for _, ranges in list_ranges(backlogs) for number in ranges["first"]] == [*range(1, MAX_BATCHES)]


def test_batch_of_another_topic_is_never_joined() -> None:
    """If the topic's backlog is repeated, the table recognizes the batch by its own mark only."""
    backlogs = Backlogs(cast("Folder", MemoryFolder()))
    set_aside(backlogs, 1, first=[1])
    backlogs.defer(TABLE, 2, lambda: {"second": [2]}, stays_alone=True)
    for batch in (3, 4, 5):
        defer(backlogs, batch, first=[batch])
    expected = [(1, {"first": [1]}), (2, {"second": [2]}), (4, {"first": [3, 4]}), (5, {"first": [5]})]
    assert list_ranges(backlogs) == expected


@pytest.mark.parametrize("is_broken", [False, True])
def test_end_of_a_run_retries_a_topic_that_waits_for_a_table(
    monkeypatch: pytest.MonkeyPatch, *, is_broken: bool
) -> None:
    """The error of the table is the cause if it fails again. Otherwise nothing waits any more."""
    monkeypatch.setattr(catch_up, "FIRST_PAUSE_SECONDS", 600.0)
    backlogs, applied, has_waited = Backlogs(cast("Folder", MemoryFolder())), list[str](), Event()

    def apply(table: str, _: BacklogEntry) -> None:
        if table == TABLE:
            assert has_waited.wait(30)
            if is_broken:
                raise FULL
        elif TABLE in backlogs.errors:
            has_waited.set()
            raise WaitingError(f"table {TABLE} has later batches in a backlog of its own")
        applied.append(table)

    backlogs.set_aside("shop.all", 1, {"shop.all": [1]}, RetriableError("down"), "down", is_whole=True)
    set_aside(backlogs, 2, first=[2])
    threads = CatchUp(backlogs, apply)
    threads.start(is_delayed=True)
    assert threads.finish() is (FULL if is_broken else None)
    assert applied == ([] if is_broken else [TABLE, "shop.all"])


def test_repeated_batch_is_in_a_backlog_once(reopen: Callable[[Backlogs, MemoryFolder], Backlogs]) -> None:
    folder = MemoryFolder()
    backlogs = Backlogs(cast("Folder", folder))
    set_aside(backlogs, 9, first=[("earliest", 4)])
    backlogs = reopen(backlogs, folder)
    assert "the disk is full" in (defer(backlogs, 9, first=[("earliest", 4)]) or "")
    set_aside(backlogs, 9, first=[("2", 4)])  # The source describes the same records in another way.
    assert list_ranges(backlogs) == [(9, {"first": [["earliest", 4]]})]


def test_table_that_is_set_aside_during_its_catch_up_gets_both_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catch_up, "FIRST_PAUSE_SECONDS", 0.01)
    backlogs = Backlogs(cast("Folder", MemoryFolder()))
    started, released, applied = Event(), Event(), list[int]()

    def apply(_: str, entry: BacklogEntry) -> None:
        started.set()
        assert released.wait(30)
        applied.append(entry.last)

    threads = CatchUp(backlogs, apply)
    set_aside(backlogs, 9, first=[9])
    threads.start()
    assert started.wait(30)
    set_aside(backlogs, 10, first=[10])
    threads.start()
    released.set()
    with ThreadPoolExecutor(1) as pool:
        ended = pool.submit(threads.finish)
        try:
            assert ended.result(10) is None
        finally:
            threads.stop()  # Otherwise the test does not end.
    assert (applied, backlogs.errors) == ([9, 10], {})


def test_batch_that_one_sink_may_have_is_retried_alone() -> None:
    backlogs = Backlogs(cast("Folder", MemoryFolder()))
    set_aside(backlogs, 7, first=[7])
    defer(backlogs, 8, first=[8])
    set_aside(backlogs, 9, first=[9])
    for batch in (10, 11, 12):
        defer(backlogs, batch, first=[batch])
    assert [last for last, _ in list_ranges(backlogs)] == [7, 8, 9, 11, 12]


@pytest.mark.spark
@pytest.mark.steps
@pytest.mark.one_spark
def test_table_is_removed_after_its_folder_could_not_be_deleted(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catch_up, "FIRST_PAUSE_SECONDS", 0.01)
    folder = Folder(spark, str(tmp_path))
    failures = [RetriableError("the server does not respond")] * 2
    delete = folder.delete

    def fail_twice(name: str) -> None:
        if failures:
            raise failures.pop()
        delete(name)

    monkeypatch.setattr(folder, "delete", fail_twice)
    backlogs, applied = Backlogs(folder), cast("list[tuple[str, int]]", [])
    threads = CatchUp(backlogs, lambda table, entry: applied.append((table, entry.first)))
    backlogs.set_aside("_shop.orders", 3, {}, DataError("a value is too long"), "a value is too long")
    assert Backlogs(folder).errors == {"_shop.orders": None}
    threads.start()
    for thread in [*threads._threads.values()]:
        thread.join(30)
    assert (applied, backlogs.errors, failures) == ([("_shop.orders", 3)], {}, [])
    assert threads.finish() is None
