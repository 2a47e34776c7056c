"""Parquet files: merged schemas of a batch, and errors that name the invalid file."""

from __future__ import annotations

import re
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
    """Write each pyarrow table as a file of one topic."""
    (folder / "t").mkdir(exist_ok=True)
    paths = [folder / "t" / f"t+0+{i}.parquet" for i in range(len(files))]
    for path, table in zip(paths, files, strict=True):
        pq.write_table(table, path, **options)
    return paths


def only_events(found: list[Events]) -> Events:
    [events] = found
    return events


def test_added_and_removed_columns(spark: SparkSession, tmp_path: Path) -> None:
    rows = [[{"after": {"id": 1, "name": "Arp"}}], [{"after": {"id": 2, "country": "FR"}}]]
    write_files(tmp_path, *map(pa.Table.from_pylist, rows))
    assert in_order(spark, only_events(events_of(spark, tmp_path, "parquet")), "after") == [
        {"id": 1, "name": "Arp", "country": None},
        {"id": 2, "name": None, "country": "FR"},
    ]


def test_widened_types(spark: SparkSession, tmp_path: Path) -> None:
    """Spark alone does not merge int with bigint."""
    write_files(
        tmp_path, pa.table({"n": pa.array([2**31 - 1], pa.int32())}), pa.table({"n": pa.array([2**40], pa.int64())})
    )
    events = only_events(events_of(spark, tmp_path, "parquet"))
    assert events.schema.simpleString() == "struct<n:bigint>"
    assert in_order(spark, events, "n") == [2**31 - 1, 2**40]


def test_incompatible_types(spark: SparkSession, tmp_path: Path) -> None:
    write_files(tmp_path, pa.table({"n": [1]}), pa.table({"n": ["one"]}))
    with pytest.raises(DataError, match=r"^topic t: the column 'n' is bigint in some records and string in others"):
        events_of(spark, tmp_path, "parquet")


class TestBadFiles:
    FIX = "\n  fix: replace it, or move it out of the folder and set `ignoreMissingFiles: true` next to `path:`"

    @pytest.mark.parametrize("content", [b"", b"id,name\n1,Arp\n", b"PAR1" * 10])
    def test_files_other_than_parquet(self, spark: SparkSession, tmp_path: Path, content: bytes) -> None:
        [good] = write_files(tmp_path, pa.table({"n": [1]}))
        bad = good.with_name("t [1] ä.parquet")
        bad.write_bytes(content)
        with pytest.raises(DataError) as raised:
            events_of(spark, tmp_path, "parquet")
        assert str(raised.value) == f"file:{bad}: not a complete Parquet file{self.FIX}"

    @pytest.mark.parametrize(
        ("kind", "name"),
        [
            (pa.timestamp("ns"), r"INT64 \(TIMESTAMP\(NANOS,false\)\)"),
            (pa.time64("us"), r"INT64 \(TIME\(MICROS,false\)\)|TIME"),
        ],
    )
    def test_types_that_spark_cannot_read(self, spark: SparkSession, tmp_path: Path, kind: Any, name: str) -> None:
        _, bad = write_files(tmp_path, pa.table({"n": [1]}), pa.table({"t": pa.array([1], kind)}))
        with pytest.raises(DataError) as raised:
            events_of(spark, tmp_path, "parquet")
        assert re.fullmatch(f"a column has the Parquet type ({name}), which Spark cannot read", raised.value.what)
        assert raised.value.where == f"file:{bad}"
        assert "TIMESTAMP(MICROS)" in str(raised.value.fix)

    def test_truncated_file(self, spark: SparkSession, tmp_path: Path) -> None:
        _, path = write_files(tmp_path, pa.table({"n": [1]}), pa.table({"n": list(range(1000))}))
        path.write_bytes(path.read_bytes()[:-10])
        with pytest.raises(DataError, match="not a complete Parquet file") as raised:
            events_of(spark, tmp_path, "parquet")
        assert raised.value.where == f"file:{path}"

    def test_damaged_page_is_detected_during_the_read(self, spark: SparkSession, tmp_path: Path) -> None:
        texts = pa.table({"n": [f"row {i}" for i in range(1000)]})
        _, path = write_files(tmp_path, pa.table({"n": ["x"]}), texts, compression="gzip")
        content = bytearray(path.read_bytes())
        content[4:400] = bytes(396)
        path.write_bytes(content)
        source = FilesSource(path=str(tmp_path), format="parquet")
        events = only_events(batch_of(spark, source, tmp_path))
        with pytest.raises(Exception) as raised:  # noqa: PT011 - any exception of Spark
            events.load(spark, events.schema).collect()
        found = source.explain(raised.value)
        assert isinstance(found, DataError)
        assert (found.what, found.where) == ("the file is truncated or damaged", f"file:{path}")

    def test_deleted_file(self, spark: SparkSession, tmp_path: Path) -> None:
        [good] = write_files(tmp_path, pa.table({"n": [1]}))
        source = FilesSource(path=str(tmp_path), format="parquet")
        missing = good.with_name("gone.parquet")
        with pytest.raises(Exception) as raised:  # noqa: PT011 - any exception of Spark
            batch_of(spark, source, tmp_path, files=[good, missing])
        found = source.explain(raised.value)
        assert found is not None
        assert (found.what, found.where) == ("a listed file no longer exists", f"file:{missing}")


def test_file_without_rows(spark: SparkSession, tmp_path: Path) -> None:
    write_files(tmp_path, pa.table({"n": pa.array([], pa.int64())}), pa.table({"n": [1]}))
    assert in_order(spark, only_events(events_of(spark, tmp_path, "parquet")), "n") == [1]
