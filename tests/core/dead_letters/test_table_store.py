"""Dead letters in a table."""

from __future__ import annotations

import time
import uuid
from typing import TYPE_CHECKING

import pytest
from tests.support.memory_sink import MemorySink

from headrace.dead_letters.rows import DeadLetterBatch
from headrace.dead_letters.table_store import DeadLetterTable
from headrace.sdk.sink import Table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.one_spark]


def test_dead_letter_is_removed_after_the_clock_was_set_back(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = uuid.uuid4().hex

    def open_table() -> DeadLetterTable:
        return DeadLetterTable(MemorySink(store=store), Table("shop.dead_letters", ("id",)), "shop")

    table = open_table()
    rows = spark.sql(
        "select 7 as batch, 'shop.orders' as topic, cast(null as string) file, '0' as partition, '5' as offset"
    )
    table.save(rows, DeadLetterBatch(7, "shop.orders", "checkpoint", "checkpoint/dead_letters/shop.orders"))
    yesterday = time.time_ns() - 86400 * 10**9
    monkeypatch.setattr(time, "time_ns", lambda: yesterday)
    table = open_table()
    stored = table.read(spark)
    assert stored is not None
    assert stored.count() == 1
    table.remove(stored)
    assert table.read(spark) is None
