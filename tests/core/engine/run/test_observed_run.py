"""Observers of real runs: events equal what the run did."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.core.engine.run.test_catch_up import BAD, GOOD, Shop
from tests.core.engine.run.test_observers import KIND, Listener
from tests.support.waiting import stop_at_end, until

from headrace import ConfigError
from headrace.engine.run import catch_up
from headrace.sdk.observer import ObservedRun, RunEvent

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.one_spark]


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catch_up, "FIRST_PAUSE_SECONDS", 0.5)
    monkeypatch.setattr(catch_up, "LONGEST_PAUSE_SECONDS", 0.5)


def applied(events: list[RunEvent], table: str) -> int:
    found = (one for event in events if event.progress for one in event.progress.tables)
    return sum(one.applied or 0 for one in found if one.table == table and one.error is None and not one.skipped)


def test_events_of_a_run_with_a_failed_table(spark: SparkSession, tmp_path: Path) -> None:
    shop, listener = Shop(tmp_path, "ranged"), Listener()
    shop.add(1)
    with stop_at_end(shop.pipeline(observers=[listener]).start(spark, "100 milliseconds")):
        until(lambda: applied(listener.events, BAD) == 1, "the first batch")
        shop.broken.write_text("full")
        shop.add(2, 3)
        until(lambda: KIND.TABLE_SET_ASIDE in listener.kinds, "the table that failed")
        until(lambda: applied(listener.events, GOOD) == 3, "the other table")
        assert applied(listener.events, BAD) == 1
        assert listener.run is not None
        status = {table.table: table for table in listener.run.status().tables}
        assert (status[GOOD].error, "the disk is full" in str(status[BAD].error)) == (None, True)
        assert listener.run.status().active
        shop.broken.unlink()
        until(lambda: KIND.TABLE_CAUGHT_UP in listener.kinds, "the catch-up")
    assert applied(listener.events, BAD) == 3
    assert listener.kinds[0] is KIND.RUN_STARTED
    assert listener.kinds[-1] is KIND.RUN_STOPPED
    assert listener.events[-1].error is None
    (aside,) = [event for event in listener.events if event.kind is KIND.TABLE_SET_ASIDE]
    assert (aside.table, "the disk is full" in str(aside.error)) == (BAD, True)
    for event in listener.events:
        if event.kind is KIND.BATCH_COMMITTED and event.batch is not None and event.progress:
            assert event.progress.batch == event.batch
    assert listener.run is not None
    assert (listener.run.status().active, listener.is_closed) == (False, True)


def test_events_of_a_failed_run(spark: SparkSession, tmp_path: Path) -> None:
    """Every table fails, so the run ends: nothing is committed."""
    shop, listener = Shop(tmp_path, "ranged"), Listener()
    shop.broken.write_text("full")
    shop.add(1, topics=(BAD,))
    with pytest.raises(ConfigError, match="the disk is full"):
        shop.pipeline(observers=[listener]).run(spark)
    assert listener.kinds == [KIND.RUN_STARTED, KIND.BATCH_STARTED, KIND.BATCH_FAILED, KIND.RUN_STOPPED]
    assert applied(listener.events, BAD) == 0
    assert all("the disk is full" in str(event.error) for event in listener.events[2:])


def test_observer_that_cannot_be_opened_stops_the_start(spark: SparkSession, tmp_path: Path) -> None:
    class Closed(Listener):
        def open(self, run: ObservedRun) -> None:
            raise ConfigError("the port is in use", where="closed", fix="use another")

    shop, first = Shop(tmp_path, "ranged"), Listener()
    shop.add(1)
    with pytest.raises(ConfigError, match="closed: the port is in use"):
        shop.pipeline(observers=[first, Closed()]).run(spark)
    assert (first.is_closed, first.kinds) == (True, [KIND.RUN_STOPPED])
    assert shop.ids(GOOD) == []
    shop.pipeline().run(spark)  # The checkpoint is not in use.
    assert shop.ids(GOOD) == [1]
