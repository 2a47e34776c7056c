"""File store of dead letters. A repeated batch keeps the timestamps of its first attempt."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.support.tiers import nightly_after

from headrace.dead_letters.file_store import DeadLetterFiles
from headrace.dead_letters.replay_queue import ReplayQueue
from headrace.dead_letters.rows import DeadLetterBatch
from headrace.errors import ConfigError
from headrace.spark.storage import Folder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.steps, pytest.mark.one_spark]


@pytest.mark.parametrize("has_success_files", nightly_after(1, ["true", "false"]))
def test_repeated_batch_keeps_the_first_timestamp(spark: SparkSession, tmp_path: Path, has_success_files: str) -> None:
    session = spark.newSession()
    session.conf.set("mapreduce.fileoutputcommitter.marksuccessfuljobs", has_success_files)
    folder = Folder(session, str(tmp_path))
    for minute in (1, 2):
        rows = session.sql(f"select 'shop.orders' as topic, timestamp'2026-01-31 12:0{minute}:00' as seen")
        DeadLetterFiles(folder).save(rows, DeadLetterBatch(7, "shop.orders", "checkpoint", "mark"))
    ((topic, seen),) = session.read.load(f"{tmp_path}/0000000007/shop.orders").collect()
    assert (topic, seen.minute) == ("shop.orders", 1)


def test_claim_keeps_the_dead_letters_of_other_tables(spark: SparkSession, tmp_path: Path) -> None:
    store = DeadLetterFiles(Folder(spark, str(tmp_path / "dead_letters")))
    for table in ("_stage.items", "orders"):
        rows = spark.sql(f"select '{table}' as table, timestamp'2026-01-31 12:01:00' as seen")
        store.save(rows, DeadLetterBatch(7, table, "checkpoint", "mark"))
    queue = ReplayQueue(spark, Folder(spark, str(tmp_path / "replay")))
    store.claim(spark, lambda rows: rows.where("table = 'orders'"), queue)
    kept = store.read(spark)
    assert kept is not None
    assert [row["table"] for row in kept.collect()] == ["_stage.items"]


def test_other_offsets_of_a_batch_do_not_replace_its_dead_letters(spark: SparkSession, tmp_path: Path) -> None:
    """A table gets the batch again from a topic that could not be read at first."""
    store = DeadLetterFiles(Folder(spark, str(tmp_path)))
    for minute, (topic, digest) in enumerate([("first", "a1"), ("second", "b2"), ("first", "a1"), ("second", "b2")]):
        rows = spark.sql(f"select '{topic}' as topic, timestamp'2026-01-31 12:0{minute}:00' as seen")
        store.save(rows, DeadLetterBatch(7, "shop.orders", "checkpoint", "mark", digest=digest))
    found = store.read(spark)
    assert found is not None
    assert sorted((row["topic"], row["seen"].minute) for row in found.collect()) == [("first", 0), ("second", 1)]
    queue = ReplayQueue(spark, Folder(spark, str(tmp_path / "replay")))
    store.claim(spark, lambda rows: rows, queue)
    assert [(item.batch, item.origin) for item in queue.items()] == [(7, "shop.orders")] * 2


def test_damaged_files_are_reported(spark: SparkSession, tmp_path: Path) -> None:
    """Spark skips empty files without an error, and cannot read a folder without files."""
    store = DeadLetterFiles(Folder(spark, str(tmp_path)))
    (tmp_path / "0000000006/shop.orders/_temporary").mkdir(parents=True)  # left by a killed process
    assert store.read(spark) is None
    rows = spark.sql("select 'shop.orders' as topic, timestamp'2026-01-31 12:01:00' as seen")
    store.save(rows, DeadLetterBatch(7, "shop.orders", "checkpoint", "mark"))
    found = store.read(spark)
    assert found is not None
    assert found.count() == 1
    (file,) = tmp_path.glob("0000000007/shop.orders/*.parquet")
    file.write_bytes(b"")
    with pytest.raises(ConfigError, match="is damaged: it has 0 bytes") as caught:
        store.read(spark)
    assert str(caught.value.where).endswith(f"0000000007/shop.orders/{file.name}")
    with pytest.raises(ConfigError, match="is damaged: it has 0 bytes"):
        store.claim(spark, lambda rows: rows, ReplayQueue(spark, Folder(spark, str(tmp_path / "replay"))))
