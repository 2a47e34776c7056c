"""Status of a run whose source does not answer, without Spark."""

from __future__ import annotations

from tests.core.progress.test_rates import batch, table

from headrace.errors import ConfigError, RetriableError
from headrace.progress.status import SILENT_SECONDS, describe_run

BATCHES = [batch(0, 20, table(300, 0))]


def test_lag_is_unknown_while_the_source_does_not_answer() -> None:
    healthy = describe_run(BATCHES, {}, None, None, SILENT_SECONDS / 2)
    assert (healthy.message, healthy.tables[0].lag, healthy.silent_seconds) == ("waiting for data", 0, None)
    silent = describe_run(BATCHES, {}, None, None, 34.0)
    assert silent.message == "waiting for an answer of the source"
    assert (silent.tables[0].lag, silent.tables[0].lag_seconds, silent.silent_seconds) == (None, None, 34.0)
    away = describe_run(BATCHES, {}, None, RetriableError("no broker responds", where="source kafka"), 2.0)
    assert (away.message, away.error) == ("retrying: no broker responds", "source kafka: no broker responds")
    assert (away.tables[0].lag, away.silent_seconds) == (None, 2.0)


def test_error_of_a_sink_between_batches_is_shown() -> None:
    error = ConfigError("permission denied: glue:CreateTable", where="table shop.orders")
    status = describe_run(BATCHES, {}, None, None, sink_error=error)
    assert (status.message, status.error) == (
        "retrying a sink: permission denied: glue:CreateTable",
        "table shop.orders: permission denied: glue:CreateTable",
    )
    assert (status.tables[0].lag, status.silent_seconds) == (0, None)


def test_batch_in_progress_is_no_silence() -> None:
    status = describe_run(BATCHES, {}, 7, None, 600.0)
    assert (status.message, status.applying, status.silent_seconds) == ("applying batch 7", 7, None)
