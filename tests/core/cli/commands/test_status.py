"""Output of ``headrace status``, from the batches and backlogs of a checkpoint."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from headrace.cli.commands.status import _print
from headrace.progress.model import BatchProgress, TableProgress
from headrace.progress.rates import TableFailure, measure_tables
from headrace.progress.summary import Summary

SINCE = "2026-11-22T11:48:02+00:00"


def batch(number: int, minutes_ago: float, *tables: TableProgress) -> BatchProgress:
    started = datetime.now(UTC) - timedelta(minutes=minutes_ago)
    return BatchProgress("shop", number, started.isoformat(timespec="milliseconds"), 0.5, tables)


def progress_of(table: str) -> TableProgress:
    return TableProgress(table, "iceberg", rows_in=60, applied=60, late=0, latency_ms=900, lag=0)


def test_failed_table_is_not_shown_as_current(capsys: pytest.CaptureFixture[str]) -> None:
    failed = TableProgress("customers", "iceberg", lag=0, error="waits since then: full")
    batches = [
        batch(812, 14.2, progress_of("customers"), progress_of("orders")),
        batch(813, 14, failed, progress_of("orders")),
        batch(2104, 0.1, failed, progress_of("orders")),
    ]
    failures = {("customers", "iceberg"): TableFailure(SINCE, "table customers: full", backlog=31)}
    _print(measure_tables(batches, failures), Summary.of("shop", batches), "shop.yaml")
    names, customers, orders, why = capsys.readouterr().out.splitlines()
    assert re.split(" {2,}", names) == ["table", "sink", "lag", "rows/s", "latency", "last batch"]
    assert re.split(" {2,}", customers) == ["customers", "iceberg", "31 batches", "0", "–", "#812, 14 min ago"]
    assert re.fullmatch(r"orders +iceberg +0 +\d+ +0\.9 s +#2104, [\d.]+ s ago", orders)
    assert why == f"customers: failing since {SINCE}, 31 batches waiting: table customers: full"


def test_lag_is_a_duration_if_the_source_counts_no_records(capsys: pytest.CaptureFixture[str]) -> None:
    behind = replace(progress_of("orders"), lag=None, lag_ms=90_000)
    batches = [batch(0, 14, behind)]  # no batch has run since
    _print(measure_tables(batches), Summary.of("shop", batches), "shop.yaml")
    _, orders = capsys.readouterr().out.splitlines()
    assert re.split(" {2,}", orders)[:3] == ["orders", "iceberg", "15 min"]


def test_lag_of_an_old_batch_has_its_age(capsys: pytest.CaptureFixture[str]) -> None:
    batches = [batch(0, 14, progress_of("orders"))]  # no batch has run since: nothing was new, or no run was active
    _print(measure_tables(batches), Summary.of("shop", batches), "shop.yaml")
    _, orders = capsys.readouterr().out.splitlines()
    assert re.split(" {2,}", orders)[2] == "0, 14 min ago"


def test_unknown_backlog_is_a_dash(capsys: pytest.CaptureFixture[str]) -> None:
    failures = {("customers", "iceberg"): TableFailure(SINCE, "full", backlog=None)}
    _print(measure_tables([], failures), Summary.of("shop", []), "shop.yaml")
    _, customers, why = capsys.readouterr().out.splitlines()
    assert re.split(" {2,}", customers) == ["customers", "iceberg", "–", "0", "–", "–"]
    assert why == f"customers: failing since {SINCE}: full"


def test_control_characters_are_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    hostile = "no column a\x1b[2J\x9b31m\u202e"
    failures = {("customers", "iceberg"): TableFailure(SINCE, hostile, backlog=None)}
    _print(measure_tables([], failures), Summary.of("shop", []), "shop.yaml")
    out = capsys.readouterr().out
    assert "no column a\\x1b[2J\\x9b31m\\u202e" in out
    assert not re.search("[\x1b\x9b\u202e]", out)
