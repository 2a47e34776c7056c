"""File store of dead letters. A repeated batch keeps the timestamps of its first attempt."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from headrace.dead_letters.file_store import DeadLetterFiles
from headrace.dead_letters.rows import DeadLetterBatch
from headrace.spark.storage import Folder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.steps, pytest.mark.one_spark]


@pytest.mark.parametrize("has_success_files", ["true", "false"])
def test_repeated_batch_keeps_the_first_timestamp(spark: SparkSession, tmp_path: Path, has_success_files: str) -> None:
    session = spark.newSession()
    session.conf.set("mapreduce.fileoutputcommitter.marksuccessfuljobs", has_success_files)
    folder = Folder(session, str(tmp_path))
    for minute in (1, 2):
        rows = session.sql(f"select 'shop.orders' as topic, timestamp'2026-01-31 12:0{minute}:00' as seen")
        DeadLetterFiles(folder).save(rows, DeadLetterBatch(7, "shop.orders", "checkpoint", "mark"))
    ((topic, seen),) = session.read.load(f"{tmp_path}/0000000007/shop.orders").collect()
    assert (topic, seen.minute) == ("shop.orders", 1)
