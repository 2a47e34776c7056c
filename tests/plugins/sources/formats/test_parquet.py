"""Parquet files: schemas of one batch meet in one, and a file that is none is told by name."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.support.files import batch_of, events_of, in_order

from headrace.errors import DataError
from headrace.sdk.events import Events
from headrace_sources.transports.files import FilesSource

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def write_files(folder: Path, *files: Any, **options: Any) -> list[Path]:
    """One topic; each file a pyarrow table."""
    (folder / "t").mkdir(exist_ok=True)
    paths = [folder / "t" / f"t+0+{i}.parquet" for i in range(len(files))]
    for path, table in zip(paths, files, strict=True):
        pq.write_table(table, path, **options)
    return paths


def the_only(found: list[Events]) -> Events:
    [events] = found
    return events


def test_a_column_that_came_and_one_that_went(spark: SparkSession, tmp_path: Path) -> None:
    rows = [[{"after": {"id": 1, "name": "Arp"}}], [{"after": {"id": 2, "country": "FR"}}]]
    write_files(tmp_path, *map(pa.Table.from_pylist, rows))
    assert in_order(spark, the_only(events_of(spark, tmp_path, "parquet")), "after") == [
        {"id": 1, "name": "Arp", "country": None},
        {"id": 2, "name": None, "country": "FR"},
    ]


def test_types_that_grew(spark: SparkSession, tmp_path: Path) -> None:
    """Spark alone merges no int with a bigint."""
    write_files(
        tmp_path, pa.table({"n": pa.array([2**31 - 1], pa.int32())}), pa.table({"n": pa.array([2**40], pa.int64())})
    )
    events = the_only(events_of(spark, tmp_path, "parquet"))
    assert events.schema.simpleString() == "struct<n:bigint>"
    assert in_order(spark, events, "n") == [2**31 - 1, 2**40]


def test_types_that_are_another_kind(spark: SparkSession, tmp_path: Path) -> None:
    write_files(tmp_path, pa.table({"n": [1]}), pa.table({"n": ["one"]}))
    with pytest.raises(DataError, match=r"^topic t: the column 'n' is bigint in some records and string in others"):
        events_of(spark, tmp_path, "parquet")


class TestBadFiles:
    FIX = "\n  fix: replace it, or move it out of the folder and set `ignoreMissingFiles: true` next to `path:`"

    @pytest.mark.parametrize("content", [b"", b"id,name\n1,Arp\n", b"PAR1" * 10])
    def test_what_is_no_parquet_file(self, spark: SparkSession, tmp_path: Path, content: bytes) -> None:
        [good] = write_files(tmp_path, pa.table({"n": [1]}))
        bad = good.with_name("t [1] ä.parquet")
        bad.write_bytes(content)
        with pytest.raises(DataError) as raised:
            events_of(spark, tmp_path, "parquet")
        assert str(raised.value) == f"file:{bad}: not a complete Parquet file{self.FIX}"

    def test_a_file_that_breaks_off(self, spark: SparkSession, tmp_path: Path) -> None:
        _, path = write_files(tmp_path, pa.table({"n": [1]}), pa.table({"n": list(range(1000))}))
        path.write_bytes(path.read_bytes()[:-10])
        with pytest.raises(DataError, match="not a complete Parquet file") as raised:
            events_of(spark, tmp_path, "parquet")
        assert raised.value.where == f"file:{path}"

    def test_a_damaged_page_is_found_when_it_is_read(self, spark: SparkSession, tmp_path: Path) -> None:
        texts = pa.table({"n": [f"row {i}" for i in range(1000)]})
        _, path = write_files(tmp_path, pa.table({"n": ["x"]}), texts, compression="gzip")
        content = bytearray(path.read_bytes())
        content[4:400] = bytes(396)
        path.write_bytes(content)
        source = FilesSource(path=str(tmp_path), format="parquet")
        events = the_only(batch_of(spark, source, tmp_path))
        with pytest.raises(Exception) as raised:  # noqa: PT011 - whatever Spark raises
            events.load(spark, events.schema).collect()
        found = source.explain(raised.value)
        assert isinstance(found, DataError)
        assert (found.what, found.where) == ("the file is truncated or damaged", f"file:{path}")

    def test_a_file_that_is_gone(self, spark: SparkSession, tmp_path: Path) -> None:
        [good] = write_files(tmp_path, pa.table({"n": [1]}))
        source = FilesSource(path=str(tmp_path), format="parquet")
        gone = good.with_name("gone.parquet")
        with pytest.raises(Exception) as raised:  # noqa: PT011 - whatever Spark raises
            batch_of(spark, source, tmp_path, files=[good, gone])
        found = source.explain(raised.value)
        assert found is not None
        assert (found.what, found.where) == ("a listed file no longer exists", f"file:{gone}")


def test_a_file_without_rows_is_a_file(spark: SparkSession, tmp_path: Path) -> None:
    write_files(tmp_path, pa.table({"n": pa.array([], pa.int64())}), pa.table({"n": [1]}))
    assert in_order(spark, the_only(events_of(spark, tmp_path, "parquet")), "n") == [1]
