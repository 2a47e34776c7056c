"""Store of rows that a batch keeps for later batches."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from headrace.checkpoint import row_store
from headrace.checkpoint.row_store import RowStore
from headrace.errors import ConfigError
from headrace.spark.storage import Folder

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.one_spark]


def row_of(spark: SparkSession, kind: str, **values: str) -> DataFrame:
    """Return a row with a key and a struct of values."""
    inner = ", ".join(f"'{name}', cast({value} as {kind})" for name, value in values.items())
    return spark.sql(f"select 'k' as key, named_struct({inner}) as carried")


@pytest.mark.parametrize("reopen", [False, True])
def test_columns_are_widened_and_added(spark: SparkSession, tmp_path: Path, *, reopen: bool) -> None:
    store = RowStore(Folder(spark, str(tmp_path)), 3600)
    for batch, value in enumerate(("array(1)", "array(2, null)", "null")):
        store.add(row_of(spark, "array<int>", tags=value), batch, lambda rows: rows)
    wide = row_of(spark, "array<bigint>", tags="array(1099511627776)", more="null")
    store.add(wide, 3, lambda rows: rows)
    # A killed process leaves such a folder.
    (tmp_path / f"0-4-{int(time.time() * 1000)}-0123abcd" / "_temporary").mkdir(parents=True)
    if reopen:
        store = RowStore(Folder(spark, str(tmp_path)), 3600)
    for _ in range(2):
        rows = store.read(spark, wide.schema, store.names)
        assert rows.schema.simpleString() == wide.schema.simpleString()
        found = [row["carried"]["tags"] for row in rows.collect()]
        assert sorted(found, key=str) == sorted([[1], [2, None], None, [2**40]], key=str)
    narrow = store.read(spark, row_of(spark, "array<int>", tags="null").schema, store.of(0))
    assert [row["carried"]["tags"] for row in narrow.collect()] == [[1]]


def test_many_small_folders_are_compacted_into_one(spark: SparkSession, tmp_path: Path) -> None:
    store = RowStore(Folder(spark, str(tmp_path)), 3600)
    for batch in range(15):
        store.add(row_of(spark, "int", n=str(batch)), batch, lambda rows: rows)
    wide = row_of(spark, "bigint", n="1099511627776")
    store.add(wide, 15, lambda rows: rows)
    assert len(list(tmp_path.iterdir())) == len(store.names) == 1
    rows = store.read(spark, wide.schema, store.names)
    assert {row["carried"]["n"] for row in rows.collect()} == {*range(15), 2**40}


def test_rows_are_found_if_the_cluster_writes_no_success_files(spark: SparkSession, tmp_path: Path) -> None:
    session = spark.newSession()
    session.conf.set("mapreduce.fileoutputcommitter.marksuccessfuljobs", "false")
    RowStore(Folder(session, str(tmp_path)), 3600).add(row_of(session, "int", n="7"), 3, lambda rows: rows)
    assert not list(tmp_path.glob("*/_SUCCESS"))
    store = RowStore(Folder(session, str(tmp_path)), 3600)
    rows = store.read(session, row_of(session, "bigint", n="7").schema, store.of(3))
    assert [row["carried"]["n"] for row in rows.collect()] == [7]


def test_columns_with_equal_checksums_are_distinguished(spark: SparkSession, tmp_path: Path) -> None:
    store = RowStore(Folder(spark, str(tmp_path)), 3600)
    # Both names have the same CRC-32.
    for batch, name in enumerate(("aspjwwk", "rnrsgud")):
        store.add(row_of(spark, "int", **{name: "7"}), batch, lambda rows: rows)
    wanted = row_of(spark, "int", aspjwwk="0", rnrsgud="0").schema
    found = [row["carried"].asDict() for row in store.read(spark, wanted, store.names).collect()]
    assert sorted(found, key=str) == [{"aspjwwk": 7, "rnrsgud": None}, {"aspjwwk": None, "rnrsgud": 7}]


def test_writes_of_a_batch_with_one_time_keep_all_rows(spark: SparkSession, tmp_path: Path) -> None:
    future = int(time.time() * 1000) + 10**9
    for values in ((1, 2), (1,)):  # The repeated batch finds fewer rows.
        store = RowStore(Folder(spark, str(tmp_path)), 3600)
        for value in values:
            store.add(row_of(spark, "int", n=str(value)), 3, lambda rows: rows, future)
    rows = store.read(spark, row_of(spark, "int", n="0").schema, store.of(3))
    assert {row["carried"]["n"] for row in rows.collect()} == {1, 2}


def test_damaged_files_are_reported(spark: SparkSession, tmp_path: Path) -> None:
    RowStore(Folder(spark, str(tmp_path)), 3600).add(row_of(spark, "int", n="7"), 3, lambda rows: rows)
    (file,) = (path for path in tmp_path.glob("*/*.parquet") if path.stat().st_size)
    content, marker = file.read_bytes(), file.with_name("_headrace_whole")
    file.with_name(f".{file.name}.crc").unlink(missing_ok=True)

    def find_error() -> str:
        with pytest.raises(ConfigError) as caught:
            _ = RowStore(Folder(spark, str(tmp_path)), 3600).names
        assert str(caught.value.where).endswith(f"{file.parent.name}/{file.name}")
        return caught.value.what

    assert len(RowStore(Folder(spark, str(tmp_path)), 3600).names) == 1
    file.write_bytes(content[:100])
    assert find_error() == f"is damaged: it has 100 bytes instead of {len(content)}"
    file.unlink()
    assert find_error() == "is damaged: it is missing"
    file.write_bytes(b"")
    assert find_error() == f"is damaged: it has 0 bytes instead of {len(content)}"
    marker.write_text("")  # of an older version
    marker.with_name(f".{marker.name}.crc").unlink(missing_ok=True)
    assert find_error() == "is damaged: it is empty"
    file.write_bytes(content)
    assert len(RowStore(Folder(spark, str(tmp_path)), 3600).names) == 1


def test_clock_that_jumps_forward_expires_nothing(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, year = time.time(), 365 * 86400
    numbers = (0, 1, 2, 0xB2 << row_store.BATCH_BITS | 2)  # The last two are writes of one batch.
    names = [f"0-{number}-{int(now * 1000)}-0123abcd" for number in numbers]
    for name in names:
        (tmp_path / name).mkdir()
    store = RowStore(Folder(spark, str(tmp_path)), 3600)
    assert store.names == names
    monkeypatch.setattr(time, "time", lambda: now + year)
    store.expire(2, None)  # The clock has jumped during the run,
    monkeypatch.setattr(row_store, "_CLOCK_OFFSET", row_store._CLOCK_OFFSET + year)
    store.expire(2, int(now * 1000))  # or before it.
    assert store.names == names
    store.expire(2, int((now + 3601) * 1000))
    assert store.names == names[2:]


def test_rows_stay_after_a_slow_clock_is_corrected(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    change = int(time.time() * 1000)
    store = RowStore(Folder(spark, str(tmp_path)), 3600)
    with monkeypatch.context() as slow:
        slow.setattr(time, "time", lambda: change / 1000 - 365 * 86400)
        store.add(row_of(spark, "int", n="7"), 1, lambda rows: rows, change)
    names = store.names
    store.expire(2, change)
    assert store.names == names
