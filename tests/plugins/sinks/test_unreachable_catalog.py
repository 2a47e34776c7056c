"""Catalog that stops while a pipeline runs, and restarts: the run resumes without intervention."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.support.bronze import Bronze
from tests.support.pipelines import COLUMNS, TABLE, TOPIC, pipeline, rows
from tests.support.waiting import stop_at_end, until, until_tables

from headrace.engine.plan import retry
from headrace_stack import Metastore

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.nightly, pytest.mark.spark, pytest.mark.dist, pytest.mark.one_spark]

CATALOG = "catalog_away"
ARP = {"artist_id": 1, "name": "Arp", "nationality": "German"}


def test_run_resumes_after_a_catalog_outage(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retry, "FIRST_PAUSE_SECONDS", 0.1)
    bronze = Bronze(tmp_path / "bronze")
    artists = bronze.topic(TOPIC, key="artist_id", columns=COLUMNS)
    artists.insert(ARP)
    bronze.flush()
    with Metastore() as metastore:
        conf = {
            "": "org.apache.iceberg.spark.SparkCatalog",
            ".type": "hive",
            ".uri": metastore.uri,
            ".warehouse": str(metastore.warehouse),
            # PySpark's metastore lacks the lock tables.
            ".hadoop.iceberg.engine.hive.lock-enabled": "false",
            # Shorter timeouts of the metastore client.
            ".hadoop.hive.metastore.connect.retries": "1",
            # Without this setting, repeated reads would not see writes of another session.
            ".cache-enabled": "false",
        }
        for name, value in conf.items():
            spark.conf.set(f"spark.sql.catalog.{CATALOG}{name}", value)
        job = pipeline(tmp_path, sinks=[{"iceberg": {"catalog": CATALOG}}])
        with stop_at_end(job.start(spark, "200 ms")) as query:
            until(lambda: query.recent_progress, "the first batch")
            metastore.kill()
            artists.update(ARP, {**ARP, "name": "Hans Arp"})
            bronze.flush()
            # Every table fails then, and the pipeline has only one.
            until(lambda: [t for b in query.recent_progress for t in b.tables if t.error], "the trouble")
            (failed,) = {t.error for b in query.recent_progress for t in b.tables if t.error}
            assert f"table {TABLE}, sink iceberg: a required server is unreachable: " in str(failed)
            metastore.start()
            until_tables(query, lambda: (rows(job, spark), [{**ARP, "name": "Hans Arp"}]), "the row")
        assert query.exception is None
        assert query.await_termination(0)
