"""Views over tables of the same pipeline."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.support.shop import TOTALS, Shop

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.one_spark]


def test_view_follows_inserts_updates_and_deletes_of_its_tables(spark: SparkSession, tmp_path: Path) -> None:
    shop = Shop(spark, tmp_path, TOTALS)
    shop.customers.snapshot({"id": 1, "region": "north"})
    shop.customers.snapshot({"id": 2, "region": "south"})
    shop.orders.snapshot({"id": 10, "customer_id": 1, "amount": 5})
    shop.orders.snapshot({"id": 11, "customer_id": 1, "amount": 7})
    shop.orders.snapshot({"id": 12, "customer_id": 2, "amount": 1})
    shop.run()
    assert shop.rows("shop.totals") == [(1, "north", 2, 12, 5), (2, "south", 1, 1, 1)]
    # The order moves to another customer, and the least amount of the first one is gone.
    shop.orders.update({"id": 10, "customer_id": 1, "amount": 5}, {"id": 10, "customer_id": 2, "amount": 5})
    shop.run()
    assert shop.rows("shop.totals") == [(1, "north", 1, 7, 7), (2, "south", 2, 6, 1)]
    shop.orders.delete({"id": 11, "customer_id": 1, "amount": 7})
    shop.customers.update({"id": 2, "region": "south"}, {"id": 2, "region": "west"})
    shop.run()
    assert shop.rows("shop.totals") == [(2, "west", 2, 6, 1)]
    (progress,) = shop.progress_of("shop.totals")
    assert (progress.applied, progress.error) == (2, None)
