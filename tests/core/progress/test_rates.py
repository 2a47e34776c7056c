"""How a table keeps up, as the status shows it."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from headrace.progress.model import BatchProgress, TableProgress
from headrace.progress.rates import TableStatus, flow

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC).timestamp()


def batch(number: int, ago: float, *tables: TableProgress) -> BatchProgress:
    started = datetime.fromtimestamp(NOW - ago, UTC).isoformat(timespec="milliseconds")
    return BatchProgress("shop", number, started, 2.0, tables)


def table(rows: int | None, lag: int | None, latency: int | None = 1500, error: str | None = None) -> TableProgress:
    return TableProgress(
        "orders", "iceberg", rows, rows, 0, 0, latency, None, None, 1.0, latency_max_ms=2500, lag=lag, error=error
    )


def test_no_batch_no_table() -> None:
    assert flow([], NOW) == ()


def test_a_table_that_keeps_up_is_no_second_old() -> None:
    (state,) = flow([batch(0, 20, table(300, 0)), batch(1, 10, table(100, 0))], NOW)
    seen = TableStatus("orders", "iceberg", 1500, 2500, lag=0, lag_seconds=0.0, rows_per_second=20.0)
    assert state == replace(seen, batch=1, ended="2026-01-02T03:03:57.000+00:00")


def test_records_that_wait_make_a_table_older_by_the_second() -> None:
    (state,) = flow([batch(0, 12, table(100, 7))], NOW)
    assert (state.lag, state.lag_seconds) == (7, 11.5)


def test_what_is_not_known_stays_unknown() -> None:
    (state,) = flow([batch(0, 12, table(100, None))], NOW)
    assert (state.lag, state.lag_seconds) == (None, None)
    (state,) = flow([batch(0, 12, table(None, 3, latency=None))], NOW)
    assert (state.lag, state.lag_seconds, state.rows_per_second) == (3, None, 0.0)


def test_the_rate_is_that_of_the_last_minute() -> None:
    old, new = batch(0, 600, table(1_000_000, 5)), batch(1, 50, table(100, 0))
    (state,) = flow([old, new], NOW)
    assert state.rows_per_second == 2.0
    (state,) = flow([old], NOW)
    assert state.rows_per_second == 0.0


def test_a_batch_that_failed_changes_nothing_but_the_rate() -> None:
    (state,) = flow([batch(0, 12, table(100, 0)), batch(1, 5, table(None, None, None, error="full"))], NOW)
    assert (state.latency_ms, state.lag, state.error, state.batch) == (1500, 0, "full", 0)
    (state,) = flow([batch(0, 12, table(None, None, None, error="full"))], NOW)
    assert (state.latency_ms, state.error, state.batch, state.ended) == (None, "full", None, None)
    (state,) = flow([batch(0, 12, table(None, None, None, error="full")), batch(1, 5, table(100, 0))], NOW)
    assert (state.latency_ms, state.error) == (1500, None)
