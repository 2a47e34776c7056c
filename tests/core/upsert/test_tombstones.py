"""Stored rows that a tombstone removes if its delete event is missing."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F
from tests.support.records import source_position

from headrace.sdk.positions import SORTABLE, epoch_text, position, record_place, sortable, tombstone_position
from headrace.spark.storage import Folder
from headrace.upsert.deleted_keys import DeletedKeys
from headrace.upsert.tombstones import deletes_for
from headrace_sources.dialects.log_positions import position_pattern

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.steps, pytest.mark.one_spark]

#: Fields of source blocks, with values of maximum length.
SOURCES: dict[str, dict[str, Any]] = {
    "PostgreSQL": {"sequence": '["9223372036854775807","9223372036854775807"]', "lsn": 2**63 - 1},
    "PostgreSQL, a snapshot": {"sequence": '[null,"16"]', "lsn": 16},
    "MySQL": {"file": "mysql-bin.000016", "pos": 2**32, "row": 0},
    "SQL Server": {
        "commit_lsn": "00000025:00000d58:0003",
        "change_lsn": "00000025:00000158:0010",
        "event_serial_no": 1,
    },
    "SQL Server, a snapshot": {"commit_lsn": "ffffffff:ffffffff:ffff", "change_lsn": None, "event_serial_no": None},
    "the place": {},
}


def stored_position(partition: int, offset: int, lsn: int = 7, epoch: int = 0, end: str = "") -> Column:
    leading = F.lit(epoch_text(epoch))
    return F.concat(leading, sortable(F.lit(lsn)), record_place(F.lit(offset), F.lit(partition)), F.lit(end))


def rows(spark: SparkSession, *positions: tuple[int, Column]) -> DataFrame:
    parts = [
        spark.range(1).select(
            F.lit(id_).alias("id"), F.lit(False).alias("_headrace_deleted"), at.alias("_headrace_position")
        )
        for id_, at in positions
    ]
    frame = parts[0]
    for part in parts[1:]:
        frame = frame.unionAll(part)
    return frame


def tombstones(spark: SparkSession, *records: tuple[int, int, int]) -> DataFrame:
    """Return tombstones for (key, partition, offset)."""
    found = [(id_, tombstone_position(record_place(F.lit(o), F.lit(p)))) for id_, p, o in records]
    return rows(spark, *found).drop("_headrace_deleted")


def removed_ids(
    tombstone_rows: DataFrame, stored: DataFrame, deleted: DeletedKeys | None = None, epoch: int = 0
) -> list[int]:
    with deletes_for(tombstone_rows, stored, ["id"], epoch_text(epoch) + SORTABLE, deleted) as deletes:
        return sorted(row["id"] for row in deletes.where("_headrace_deleted").collect())


def test_row_must_precede_the_tombstone_in_the_same_partition(spark: SparkSession) -> None:
    stored = rows(
        spark,
        (1, stored_position(0, 255)),
        (2, stored_position(0, 257)),
        (3, stored_position(1, 255)),
        (4, stored_position(16, 255)),  # 16 is encoded as 210, and 0 as 10
        (5, stored_position(0, 255, end="!")),  # one of its values was filled later
        (6, stored_position(0, 256)),
    )
    tombstone_rows = tombstones(spark, *[(id_, 0, 256) for id_ in range(1, 8)])
    assert removed_ids(tombstone_rows, stored) == [1, 5]


def test_row_of_another_epoch_is_kept(spark: SparkSession) -> None:
    stored = rows(
        spark, (1, stored_position(0, 1)), (2, stored_position(0, 1, epoch=1)), (3, stored_position(0, 1, epoch=17))
    )
    tombstone_rows = tombstones(spark, (1, 0, 2), (2, 0, 2), (3, 0, 2))
    assert [removed_ids(tombstone_rows, stored, epoch=epoch) for epoch in (0, 1, 17)] == [[1], [2], [3]]


def test_row_without_a_record_location_in_its_position_is_kept(spark: SparkSession) -> None:
    file_position = F.concat(F.lit("0"), sortable(F.lit(7)), F.lit("216part-0.avro/15"))
    position_without_log = F.concat(F.lit("0"), record_place(F.lit(1), F.lit(0)))
    stored = rows(spark, (1, file_position), (2, position_without_log), (3, F.lit(None).cast("string")))
    assert removed_ids(tombstones(spark, (1, 0, 99), (2, 0, 99), (3, 0, 99)), stored) == []


def test_delete_sorts_immediately_after_the_row(spark: SparkSession) -> None:
    stored = rows(spark, (1, stored_position(0, 1, lsn=7)))
    with deletes_for(tombstones(spark, (1, 0, 5)), stored, ["id"], "0" + SORTABLE, None) as deletes:
        (delete,) = deletes.collect()
    (row,) = stored.collect()
    ((newer,),) = spark.range(1).select(stored_position(0, 0, lsn=8)).collect()
    assert row["_headrace_position"] < delete["_headrace_position"] < newer


def test_applied_delete_between_row_and_tombstone_takes_precedence(spark: SparkSession, tmp_path: Path) -> None:
    deleted = DeletedKeys(Folder(spark, str(tmp_path)), retention=3600)
    late = rows(
        spark, (1, stored_position(0, 3, lsn=5)), (2, stored_position(0, 1, lsn=5)), (3, stored_position(1, 3, lsn=5))
    )
    deleted.remember(late.withColumn("_headrace_deleted", F.lit(True)), ["id"], 1)
    stored = rows(spark, *[(id_, stored_position(0, 2, lsn=7)) for id_ in (1, 2, 3, 4)])
    tombstone_rows = tombstones(spark, *[(id_, 0, 4) for id_ in (1, 2, 3, 4)])
    assert removed_ids(tombstone_rows, stored, deleted) == [2, 3, 4]


@pytest.mark.parametrize("database", SOURCES)
def test_record_location_is_found_in_positions_of_every_database(spark: SparkSession, database: str) -> None:
    values = SOURCES[database]
    kinds = {"lsn": "bigint", "pos": "bigint", "row": "int", "event_serial_no": "bigint"}

    def source_field(name: str) -> Column:
        return F.lit(values[name]).cast(kinds.get(name, "string"))

    def stored_at(partition: int, offset: int) -> Column:
        return source_position(values, source_field, record_place(F.lit(offset), F.lit(partition)))

    stored = rows(spark, (1, stored_at(0, 255)), (2, stored_at(0, 4096)), (3, stored_at(16, 255)))
    tombstone_rows = tombstones(spark, (1, 0, 256), (2, 0, 256), (3, 0, 256))
    with deletes_for(tombstone_rows, stored, ["id"], "0" + position_pattern(values), None) as deletes:
        assert [row["id"] for row in deletes.collect()] == [1]


def test_position_of_a_tombstone_is_lower_than_any_change(spark: SparkSession) -> None:
    lowest = position(place=F.lit(""))
    ((is_lower,),) = spark.range(1).select(tombstone_position(F.lit("GFFFFFFFFFFFFFFFF")) < lowest).collect()
    assert is_lower
