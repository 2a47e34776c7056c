"""Real runs that are served: metrics equal the counts of the batches, and each probe fails when its subject breaks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from headrace_serve.serve import Serve
from tests.core.engine.run.test_catch_up import BAD, GOOD, Shop
from tests.plugins.serve.client import read_metrics, request
from tests.support.waiting import stop_at_end, until

from headrace.engine.run import catch_up
from headrace.engine.run.query import Query
from headrace.engine.run.ranged_query import RangedQuery

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.one_spark]


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catch_up, "FIRST_PAUSE_SECONDS", 0.5)
    monkeypatch.setattr(catch_up, "LONGEST_PAUSE_SECONDS", 0.5)


def rows(port: int, table: str, outcome: str = "applied") -> float:
    """Return the rows of a table in the metrics."""
    return read_metrics(port).get(f'headrace_table_rows_total{{outcome="{outcome}",sink="broken",table="{table}"}}', 0)


def probe(port: int, path: str) -> tuple[int, str]:
    answer = request(port, path)
    return answer.status, answer.text.strip()


def test_metrics_and_readiness_of_a_run_with_a_failed_table(spark: SparkSession, tmp_path: Path) -> None:
    shop, serve = Shop(tmp_path, "ranged"), Serve(address="127.0.0.1:0", ready={"latency": "1 hour"})
    shop.add(1, 2)
    with stop_at_end(shop.pipeline(observers=[serve]).start(spark, "100 milliseconds")) as query:
        until(lambda: rows(serve.port, BAD) == 2, "the rows of the first batch")
        assert probe(serve.port, "/healthz") == (200, "ok")
        until(lambda: probe(serve.port, "/readyz") == (200, "ok"), "the readiness")
        shop.broken.write_text("full")
        shop.add(3)
        until(lambda: probe(serve.port, "/readyz") == (503, f"{BAD} → broken: set aside"), "the failed table")
        assert probe(serve.port, "/healthz") == (200, "ok")
        assert "the disk is full" in request(serve.port, "/").text
        until(lambda: rows(serve.port, GOOD) == 3, "the other table")
        assert rows(serve.port, BAD) == 2
        shop.broken.unlink()
        until(lambda: rows(serve.port, BAD) == 3, "the catch-up")
        until(lambda: probe(serve.port, "/readyz") == (200, "ok"), "the readiness")
        for table in (GOOD, BAD):
            counted = sum(t.applied or 0 for b in query.recent_progress for t in b.tables if t.table == table)
            assert rows(serve.port, table) == counted == len(shop.ids(table))
        found = read_metrics(serve.port)
        assert (found["headrace_tables_set_aside_total"], found["headrace_tables_caught_up_total"]) == (1, 1)
        port = serve.port
    with pytest.raises(ConnectionRefusedError):
        request(port, "/healthz")


def test_liveness_of_a_run_whose_thread_has_died(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread ends without an error, which no code expects."""

    def die(query: RangedQuery) -> None:
        until(shop.broken.exists, "the end")
        raise SystemExit

    monkeypatch.setattr(RangedQuery, "_run_batches", die)
    monkeypatch.setattr(Query, "_note_unexpected", lambda query, raised: None)
    shop, serve = Shop(tmp_path, "ranged"), Serve(address="127.0.0.1:0")
    query = shop.pipeline(observers=[serve]).start(spark, "100 milliseconds")
    assert probe(serve.port, "/healthz") == (200, "ok")
    shop.broken.touch()
    until(lambda: not query.is_active, "the end of the thread")
    until(lambda: probe(serve.port, "/healthz") == (503, "the run has ended: stopped"), "the probe")
    assert probe(serve.port, "/readyz")[0] == 503
    query.stop()
