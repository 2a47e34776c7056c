"""Views over tables of the same pipeline: after each run, a view equals its computation from the stored tables."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.memory_sink import TABLES, MemorySink
from tests.support.shop import ORDERS, REGIONS, TOTALS, Shop
from tests.support.tiers import nightly_after

from headrace.checkpoint.view_queue import ViewQueue
from headrace.errors import DataError, HeadraceError
from headrace.sdk.changes import DELETED, POSITION
from headrace.sdk.sink import Batch, Capabilities, Table, WriteResult
from headrace.spark.storage import Folder

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.one_spark]

#: Names of the topics, tables and columns of the first batch.
NORTH, SOUTH = {"id": 1, "region": "north"}, {"id": 2, "region": "south"}


def order(number: int, customer: int, amount: int) -> dict[str, Any]:
    return {"id": number, "customer_id": customer, "amount": amount}


def fill(shop: Shop) -> None:
    """Add two customers, and three orders."""
    shop.customers.snapshot(NORTH)
    shop.customers.snapshot(SOUTH)
    for row in (order(10, 1, 5), order(11, 1, 7), order(12, 2, 1)):
        shop.orders.snapshot(row)


def queue_of(shop: Shop) -> list[str]:
    """Return the files of the queue that views have not applied."""
    return Folder(shop.spark, str(shop.folder / "checkpoint" / "views" / "queue")).list_files()


def test_views_follow_inserts_updates_deletes_and_truncates(spark: SparkSession, tmp_path: Path) -> None:
    shop = Shop(spark, tmp_path, REGIONS, TOTALS)
    fill(shop)
    shop.run()
    assert shop.rows("shop.totals") == [(1, "north", 2, 12, 5), (2, "south", 1, 1, 1)]
    assert shop.rows("shop.regions") == [("north", 1, 12), ("south", 1, 1)]
    # The order moves to another customer, and the least amount of the first one is gone.
    shop.orders.update(order(10, 1, 5), order(10, 2, 5))
    shop.run()
    assert shop.rows("shop.totals") == [(1, "north", 1, 7, 7), (2, "south", 2, 6, 1)]
    assert queue_of(shop) == []
    shop.orders.delete(order(11, 1, 7))
    shop.customers.update(SOUTH, {"id": 2, "region": "west"})
    shop.run()
    assert shop.rows("shop.totals") == [(2, "west", 2, 6, 1)]
    assert shop.rows("shop.regions") == [("west", 1, 6)]
    (progress,) = shop.progress_of("shop.totals")
    assert (progress.applied, progress.error) == (2, None)
    shop.orders.event("t", None, None)
    shop.orders.insert(order(13, 1, 4))
    shop.run()
    assert shop.rows("shop.totals") == [(1, "north", 1, 4, 4)]
    assert shop.rows("shop.regions") == [("north", 1, 4)]


class Crash(BaseException):
    """End of the process at one step."""


def crash_before(monkeypatch: pytest.MonkeyPatch, owner: type, method: str, is_step: Callable[..., bool]) -> None:
    """Let a method end the process instead of a call for which ``is_step`` is true."""
    call = getattr(owner, method)

    def crash(self: Any, *arguments: Any) -> Any:
        if is_step(*arguments):
            raise Crash
        return call(self, *arguments)

    monkeypatch.setattr(owner, method, crash)


def crash_after_write(monkeypatch: pytest.MonkeyPatch, table: str) -> None:
    """End the process after a table has its batch, before the checkpoint has it."""
    write = MemorySink.write

    def crash(self: MemorySink, target: Table, rows: DataFrame, batch: Batch) -> WriteResult:
        result = write(self, target, rows, batch)
        if target.name == table:
            raise Crash
        return result

    monkeypatch.setattr(MemorySink, "write", crash)


def is_call(number: int) -> Callable[..., bool]:
    """Return a condition for the call of a method with this number."""
    calls: list[object] = []

    def is_it(*_: object) -> bool:
        calls.append(None)
        return len(calls) == number

    return is_it


STEPS: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "after the table has the batch": lambda patch: crash_after_write(patch, ORDERS),
    "after the view has the refresh": lambda patch: crash_after_write(patch, "shop.totals"),
    "before the old rows are stored": lambda patch: crash_before(patch, ViewQueue, "add", lambda *_: True),
    "before the attempt is recorded": lambda patch: crash_before(patch, ViewQueue, "save", is_call(1)),
    "before the refresh is recorded": lambda patch: crash_before(patch, ViewQueue, "save", is_call(2)),
    "before the queue is emptied": lambda patch: crash_before(patch, ViewQueue, "remove", lambda _, names: bool(names)),
}


@pytest.mark.parametrize("steps", nightly_after(1, [list(STEPS)[:2], list(STEPS)[2:]]))
def test_run_after_a_crash_repeats_what_is_missing(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, steps: list[str]
) -> None:
    shop = Shop(spark, tmp_path, TOTALS)
    fill(shop)
    shop.run()
    customer = 1
    for step in steps:
        shop.orders.update(order(10, customer, 5), order(10, 3 - customer, 5))
        customer = 3 - customer
        with monkeypatch.context() as patch:
            STEPS[step](patch)
            with pytest.raises(HeadraceError):
                shop.run()
        shop.run()
        assert shop.rows("shop.totals") == shop.recompute(TOTALS), step
        assert queue_of(shop) == [], step


@pytest.mark.nightly
def test_failed_table_and_its_view_catch_up(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = Shop(spark, tmp_path, TOTALS)
    fill(shop)
    shop.run()
    write, failures = MemorySink.write, ["orders"]

    def fail(self: MemorySink, target: Table, rows: DataFrame, batch: Batch) -> WriteResult:
        if target.name == ORDERS and failures:
            raise DataError(failures.pop())
        return write(self, target, rows, batch)

    monkeypatch.setattr(MemorySink, "write", fail)
    shop.orders.update(order(10, 1, 5), order(10, 2, 6))
    shop.customers.update(NORTH, {"id": 1, "region": "east"})
    shop.run()
    assert shop.rows("shop.totals") == [(1, "east", 1, 7, 7), (2, "south", 2, 7, 1)]
    assert queue_of(shop) == []


def test_new_and_changed_views_are_computed_whole_without_new_records(spark: SparkSession, tmp_path: Path) -> None:
    shop = Shop(spark, tmp_path)
    fill(shop)
    shop.run()
    shop.views = (TOTALS,)
    shop.run()
    assert shop.rows("shop.totals") == shop.recompute(TOTALS)
    fewer = {**TOTALS, "sql": TOTALS["sql"].replace("GROUP BY", "WHERE o.amount > 4 GROUP BY")}
    shop.views = (fewer,)
    shop.run()
    assert shop.rows("shop.totals") == [(1, "north", 2, 12, 5)]
    for number, amount in ((10, 5), (11, 7)):  # The last refresh only deletes: no row shows its number.
        shop.orders.delete(order(number, 1, amount))
    shop.run()
    # Nothing records the changes for a view that is not in the file.
    shop.views = ()
    shop.orders.update(order(12, 2, 1), order(12, 2, 9))
    shop.run()
    shop.views = (fewer,)
    shop.run()
    assert shop.rows("shop.totals") == [(2, "south", 1, 9, 9)]
    # Another definition fails, and the first one returns. It reads a table that the other one does not.
    other = {"key": ["customer_id", "region"], "sql": "SELECT id AS customer_id, region FROM shop.customers"}
    shop.views = ({**fewer, **other},)
    shop.orders.update(order(12, 2, 9), order(12, 2, 6))
    with pytest.raises(HeadraceError, match=r"was not written by a view with the key \(customer_id, region\)"):
        shop.run()
    shop.views = (fewer,)
    shop.run()
    assert shop.rows("shop.totals") == [(2, "south", 1, 6, 6)]
    shop.views = ({**fewer, "sink": {"memory": {"mode": "changelog"}}},)
    with pytest.raises(HeadraceError, match="was written in mode upsert, and has mode changelog now"):
        shop.run()


def test_view_keeps_the_rows_of_a_table_with_its_name(spark: SparkSession, tmp_path: Path) -> None:
    sinks = [MemorySink(store=str(tmp_path))]
    other = Shop(spark, tmp_path / "other", sinks=sinks)
    other.bronze.topic("shop.counts", key="id", columns={"id": "int", "n": "int"}).snapshot({"id": 1, "n": 10})
    other.run(tables=[{"source": "shop.counts", "key": ["id"]}])
    counts = "SELECT customer_id AS id, COUNT(*) AS n FROM shop.orders GROUP BY customer_id"
    shop = Shop(spark, tmp_path / "shop", {"name": "shop.counts", "key": "id", "sql": counts}, sinks=sinks)
    fill(shop)
    with pytest.raises(HeadraceError, match=r"its table exists, and was not written by a view with the key \(id\)"):
        shop.run()
    assert other.rows("shop.counts") == [(1, 10)]


@pytest.mark.nightly
def test_failing_view_keeps_its_changes_and_does_not_stop_tables(spark: SparkSession, tmp_path: Path) -> None:
    names = {"name": "shop.names", "key": "region", "sql": "SELECT region, id FROM shop.customers"}
    shop = Shop(spark, tmp_path, names, TOTALS)
    fill(shop)
    shop.run()
    shop.customers.insert({"id": 3, "region": "north"})
    shop.orders.insert(order(13, 3, 8))
    with pytest.raises(DataError, match=r"has 2 rows with the key \(region: north\)") as raised:
        shop.run()
    assert raised.value.where == "view shop.names"
    assert [progress.error for progress in shop.progress_of("shop.names")] == [str(raised.value)]
    assert shop.rows("shop.totals") == shop.recompute(TOTALS)
    shop.customers.update({"id": 3, "region": "north"}, {"id": 3, "region": None})
    with pytest.raises(DataError, match=r"has a null in the key \(region\)"):
        shop.run()
    shop.customers.update({"id": 3, "region": None}, {"id": 3, "region": "east"})
    shop.run()
    assert shop.rows("shop.names") == [("east", 3), ("north", 1), ("south", 2)]
    assert queue_of(shop) == []


class Appends(MemorySink):
    """Sink that appends rows and deletes, such as one of topics."""

    name = "appends"
    capabilities = Capabilities(delete=True, schema_evolution=True, exactly_once=True, single_pass=True)

    def read_rows(self, rows: DataFrame) -> list[dict[str, Any]]:
        return [{**row, "gone": row[DELETED], POSITION: row[POSITION]} for row in super().read_rows(rows)]

    def union(self, old: Any, incoming: Any) -> Any:
        return super().union(old, incoming.add("gone", "boolean"))


@pytest.mark.nightly
def test_sink_that_appends_gets_rows_and_deletes(spark: SparkSession, tmp_path: Path) -> None:
    lake, topics = MemorySink(store=str(tmp_path)), Appends(store=f"{tmp_path}/topics")
    view = {**TOTALS, "sinks": ["appends"]}
    shop = Shop(spark, tmp_path, view, sinks=[lake, topics])
    view["from"] = "memory"
    fill(shop)
    shop.run()
    shop.orders.delete(order(12, 2, 1))
    shop.orders.insert(order(13, 1, 1))
    shop.run()
    assert shop.rows("shop.totals", topics) == [
        (1, "north", 2, 12, 5, False),
        (1, "north", 3, 13, 1, False),
        (2, "south", 1, 1, 1, False),
        (2, None, None, None, None, True),
    ]
    positions = [row[POSITION] for row in TABLES[topics.config.store, "shop.totals"][-1].rows]
    assert len(set(positions)) == len(positions)


@pytest.mark.nightly
def test_full_view_and_resync(spark: SparkSession, tmp_path: Path) -> None:
    newest = {
        "name": "shop.newest",
        "key": "n",
        "sql": "SELECT 1 AS n, MAX(id) AS id FROM shop.orders",
        "recompute": "full",
    }
    shop = Shop(spark, tmp_path, newest, TOTALS)
    fill(shop)
    shop.run()
    assert shop.rows("shop.newest") == [(1, 12)]
    shop.bronze.lsn += 100
    shop.orders.snapshot(order(10, 1, 6))
    shop.run()
    shop.pipeline().resync(ORDERS, now=True, spark=spark)
    assert shop.rows("shop.newest") == [(1, 10)]
    assert shop.rows("shop.totals") == [(1, "north", 1, 6, 6)]
