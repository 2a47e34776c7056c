"""Lag, latency and rate of a table in the status."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from headrace.progress.model import BatchProgress, TableProgress
from headrace.progress.rates import TableFailure, TableStatus, measure_tables

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC).timestamp()


def batch(number: int, ago: float, *tables: TableProgress) -> BatchProgress:
    started = datetime.fromtimestamp(NOW - ago, UTC).isoformat(timespec="milliseconds")
    return BatchProgress("shop", number, started, 2.0, tables)


def table(rows: int | None, lag: int | None, latency: int | None = 1500, error: str | None = None) -> TableProgress:
    return TableProgress(
        "orders",
        "iceberg",
        rows_in=rows,
        applied=rows,
        late=0,
        latency_ms=latency,
        latency_max_ms=2500,
        seconds=1.0,
        lag=lag,
        error=error,
    )


def test_no_batches_have_no_tables() -> None:
    assert measure_tables([], now=NOW) == ()


def test_table_without_a_backlog_has_no_lag() -> None:
    (state,) = measure_tables([batch(0, 20, table(300, 0)), batch(1, 10, table(100, 0))], now=NOW)
    seen = TableStatus("orders", "iceberg", 1500, 2500, lag=0, lag_seconds=0.0, rows_per_second=20.0)
    assert state == replace(seen, batch=1, ended="2026-01-02T03:03:57.000+00:00")


def test_lag_grows_while_records_wait() -> None:
    (state,) = measure_tables([batch(0, 12, table(100, 7))], now=NOW)
    assert (state.lag, state.lag_seconds) == (7, 11.5)


def test_source_may_report_lag_as_time_without_records() -> None:
    behind = replace(table(100, None), lag_ms=4000)
    (state,) = measure_tables([batch(0, 12, behind)], now=NOW)
    assert (state.lag, state.lag_seconds) == (None, 14.0)
    (state,) = measure_tables([batch(0, 12, replace(behind, lag_ms=0))], now=NOW)
    assert (state.lag, state.lag_seconds) == (None, 0.0)


def test_unknown_values_stay_unknown() -> None:
    (state,) = measure_tables([batch(0, 12, table(100, None))], now=NOW)
    assert (state.lag, state.lag_seconds) == (None, None)
    (state,) = measure_tables([batch(0, 12, table(None, 3, latency=None))], now=NOW)
    assert (state.lag, state.lag_seconds, state.rows_per_second) == (3, None, 0.0)


def test_rate_covers_the_last_minute() -> None:
    old, new = batch(0, 600, table(1_000_000, 5)), batch(1, 50, table(100, 0))
    (state,) = measure_tables([old, new], now=NOW)
    assert state.rows_per_second == 2.0
    (state,) = measure_tables([old], now=NOW)
    assert state.rows_per_second == 0.0


def test_failed_table_has_no_lag_or_latency() -> None:
    (state,) = measure_tables(
        [batch(0, 12, table(100, 0)), batch(1, 5, table(None, None, None, error="full"))], now=NOW
    )
    assert (state.latency_ms, state.lag, state.error, state.batch) == (None, None, "full", 0)
    assert (state.latency_max_ms, state.lag_seconds) == (None, None)
    assert (state.failing_since, state.backlog) == ("2026-01-02T03:04:00+00:00", None)
    (state,) = measure_tables([batch(0, 12, table(None, None, None, error="full"))], now=NOW)
    assert (state.latency_ms, state.error, state.batch, state.ended) == (None, "full", None, None)
    (state,) = measure_tables(
        [batch(0, 12, table(None, None, None, error="full")), batch(1, 5, table(100, 0))], now=NOW
    )
    assert (state.latency_ms, state.error) == (1500, None)


def test_failure_starts_with_the_first_failed_batch() -> None:
    batches = [batch(n, 20 - n, table(None, None, None, error=f"full {n}")) for n in range(3)]
    (state,) = measure_tables(batches, now=NOW)
    assert (state.failing_since, state.error) == ("2026-01-02T03:03:45+00:00", "full 2")


def test_backlog_is_reported_after_its_batches_are_removed() -> None:
    failure = TableFailure("2026-01-01T00:00:00+00:00", "full", backlog=700)
    batches = [batch(0, 12, table(100, 0))]
    (state,) = measure_tables(batches, {("orders", "iceberg"): failure}, NOW)
    assert (state.lag, state.latency_ms, state.batch) == (None, None, 0)
    assert (state.failing_since, state.error, state.backlog) == (failure.since, "full", 700)
    (state,) = measure_tables([], {("orders", "iceberg"): failure}, NOW)
    expected = TableStatus("orders", "iceberg", error="full", failing_since=failure.since, backlog=700)
    assert state == expected
