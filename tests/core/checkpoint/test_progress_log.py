"""Progress of the last batches in the checkpoint."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from tests.support.memory_folder import MemoryFolder

from headrace.checkpoint.progress_log import ProgressLog
from headrace.progress.model import BatchProgress, TableProgress
from headrace.progress.rates import measure_tables

if TYPE_CHECKING:
    from headrace.spark.storage import Folder


def progress(batch: int, *tables: TableProgress) -> BatchProgress:
    return BatchProgress("shop", batch, "2026-11-28T12:00:00+00:00", 1.0, tables)


def test_topic_that_failed_as_a_whole_recovers_with_its_tables() -> None:
    log = ProgressLog(cast("Folder", MemoryFolder()))
    log.add(progress(9, TableProgress("shop.all", "iceberg", error="the registry is down")))
    caught_up = [TableProgress(name, "iceberg", rows_in=1) for name in ("shop.orders", "shop.people")]
    log.amend(progress(9, *caught_up, TableProgress("shop.all", "iceberg")))
    assert {table.table: table.error for table in measure_tables(log.all())} == {
        "shop.all": None,
        "shop.orders": None,
        "shop.people": None,
    }
    log.amend(progress(8, *caught_up))  # The progress of this batch is no longer kept.
    assert [batch.batch for batch in log.all()] == [9]
