"""Tags of jobs: scheduler pools and cancellation per table."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest
from tests.support.waiting import until

from headrace.spark.job_tags import cancel_jobs, tag_jobs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.steps, pytest.mark.one_spark]


def test_jobs_of_a_table_have_their_own_pool(spark: SparkSession) -> None:
    pool = "spark.scheduler.pool"
    context = spark.sparkContext
    with tag_jobs(spark, "lake/_mine", "shop.orders"):
        orders = context.getLocalProperty(pool)
    with tag_jobs(spark, "lake/_mine", "shop.customers"):
        assert context.getLocalProperty(pool) != orders
    assert context.getLocalProperty(pool) is None
    context.setLocalProperty(pool, "custom")
    with tag_jobs(spark, "lake/_mine", "shop.orders"):
        assert context.getLocalProperty(pool) == "custom"
    assert context.getLocalProperty(pool) == "custom"
    context.setLocalProperty(pool, None)  # type: ignore[arg-type]


def test_cancellation_is_limited_to_one_pipeline(spark: SparkSession) -> None:
    ended: dict[str, str] = {}

    def work(checkpoint: str) -> None:
        with tag_jobs(spark, checkpoint, "shop.orders"):
            try:
                spark.range(1).selectExpr("java_method('java.lang.Thread', 'sleep', 5000L)").collect()
                ended[checkpoint] = "done"
            except Exception:  # noqa: BLE001 - Spark's error for a canceled job
                ended[checkpoint] = "canceled"

    threads = [threading.Thread(target=work, args=(checkpoint,)) for checkpoint in ("lake/_mine", "lake/_yours")]
    for thread in threads:
        thread.start()
    until(lambda: len(spark.sparkContext.statusTracker().getActiveJobsIds()) == 2, "both jobs")
    cancel_jobs(spark, "lake/_mine", "shop.orders")
    for thread in threads:
        thread.join()
    assert ended == {"lake/_mine": "canceled", "lake/_yours": "done"}
