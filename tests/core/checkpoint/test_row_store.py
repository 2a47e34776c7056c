"""What batches leave to later ones is read by all that come later."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from headrace.checkpoint.row_store import RowStore
from headrace.spark.storage import Folder

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.one_spark]


def row_of(spark: SparkSession, kind: str, **values: str) -> DataFrame:
    """A key, and a struct of what was told of it."""
    inner = ", ".join(f"'{name}', cast({value} as {kind})" for name, value in values.items())
    return spark.sql(f"select 'k' as key, named_struct({inner}) as told")


@pytest.mark.parametrize("again", [False, True])
def test_columns_are_widened_and_added(spark: SparkSession, tmp_path: Path, *, again: bool) -> None:
    kept = RowStore(Folder(spark, str(tmp_path)), 3600)
    for batch, value in enumerate(("array(1)", "array(2, null)", "null")):
        kept.add(row_of(spark, "array<int>", tags=value), batch, lambda rows: rows)
    wide = row_of(spark, "array<bigint>", tags="array(1099511627776)", more="null")
    kept.add(wide, 3, lambda rows: rows)
    # As a kill in the middle leaves it.
    (tmp_path / f"0-4-{int(time.time() * 1000)}-0123abcd" / "_temporary").mkdir(parents=True)
    if again:
        kept = RowStore(Folder(spark, str(tmp_path)), 3600)
    for _ in range(2):
        rows = kept.read(spark, wide.schema, kept.names)
        assert rows.schema.simpleString() == wide.schema.simpleString()
        found = [row["told"]["tags"] for row in rows.collect()]
        assert sorted(found, key=str) == sorted([[1], [2, None], None, [2**40]], key=str)
    narrow = kept.read(spark, row_of(spark, "array<int>", tags="null").schema, kept.of(0))
    assert [row["told"]["tags"] for row in narrow.collect()] == [[1]]


def test_many_small_folders_become_one(spark: SparkSession, tmp_path: Path) -> None:
    kept = RowStore(Folder(spark, str(tmp_path)), 3600)
    for batch in range(15):
        kept.add(row_of(spark, "int", n=str(batch)), batch, lambda rows: rows)
    wide = row_of(spark, "bigint", n="1099511627776")
    kept.add(wide, 15, lambda rows: rows)
    assert len(list(tmp_path.iterdir())) == len(kept.names) == 1
    rows = kept.read(spark, wide.schema, kept.names)
    assert {row["told"]["n"] for row in rows.collect()} == {*range(15), 2**40}


def test_what_was_written_is_known_where_the_cluster_writes_no_success_files(
    spark: SparkSession, tmp_path: Path
) -> None:
    session = spark.newSession()
    session.conf.set("mapreduce.fileoutputcommitter.marksuccessfuljobs", "false")
    RowStore(Folder(session, str(tmp_path)), 3600).add(row_of(session, "int", n="7"), 3, lambda rows: rows)
    assert not list(tmp_path.glob("*/_SUCCESS"))
    kept = RowStore(Folder(session, str(tmp_path)), 3600)
    rows = kept.read(session, row_of(session, "bigint", n="7").schema, kept.of(3))
    assert [row["told"]["n"] for row in rows.collect()] == [7]


def test_columns_whose_types_have_one_checksum_are_still_two(spark: SparkSession, tmp_path: Path) -> None:
    kept = RowStore(Folder(spark, str(tmp_path)), 3600)
    # CRC-32 is the same for both, and folders were once named by it.
    for batch, name in enumerate(("aspjwwk", "rnrsgud")):
        kept.add(row_of(spark, "int", **{name: "7"}), batch, lambda rows: rows)
    wanted = row_of(spark, "int", aspjwwk="0", rnrsgud="0").schema
    found = [row["told"].asDict() for row in kept.read(spark, wanted, kept.names).collect()]
    assert sorted(found, key=str) == [{"aspjwwk": 7, "rnrsgud": None}, {"aspjwwk": None, "rnrsgud": 7}]
