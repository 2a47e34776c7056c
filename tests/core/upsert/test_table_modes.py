"""Mode of an existing table, which does not change when a key or another mode is configured later."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.bronze import write_lines
from tests.support.memory_sink import MemorySink

from headrace import DataError, Pipeline
from headrace_sources.transports.files import FilesSource

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.one_spark]

TOPIC = "shop.orders"


def run(folder: Path, spark: SparkSession, *rows: dict[str, Any], key: tuple[str, ...] = (), **options: Any) -> None:
    """Write a file of rows and run the pipeline, whose table may have a key."""
    landing = folder / "landing" / TOPIC
    write_lines(landing / f"{TOPIC}+0+{len(list(landing.glob('*')))}.json", rows)
    source = FilesSource(path=str(folder / "landing"), format="json")
    sink = MemorySink(store=str(folder), **options)
    tables = [{"source": TOPIC, "key": list(key)}]
    Pipeline("shop", source, [sink], str(folder / "checkpoint"), tables=tables).run(spark)


def names(folder: Path, spark: SparkSession) -> list[str]:
    from headrace.sdk.sink import Table

    rows = MemorySink(store=str(folder)).read_back(spark, Table(TOPIC)).collect()
    return sorted(row["name"] for row in rows)


def test_key_added_later_is_rejected_until_a_mode_is_configured(tmp_path: Path, spark: SparkSession) -> None:
    run(tmp_path, spark, {"id": 1, "name": "a"}, {"id": 1, "name": "b"})
    with pytest.raises(DataError, match="was created in mode changelog") as caught:
        run(tmp_path, spark, {"id": 1, "name": "c"}, key=("id",))
    assert "requires mode upsert" in str(caught.value)
    assert "`mode: changelog`" in str(caught.value)
    assert names(tmp_path, spark) == ["a", "b"]
    run(tmp_path, spark, {"id": 1, "name": "d"}, key=("id",), mode="changelog")
    assert names(tmp_path, spark) == ["a", "b", "c", "d"]


def test_other_mode_in_the_file_is_rejected(tmp_path: Path, spark: SparkSession) -> None:
    run(tmp_path, spark, {"id": 1, "name": "a"}, key=("id",), mode="upsert")
    with pytest.raises(DataError, match="was created in mode upsert, and `mode: append` is set now"):
        run(tmp_path, spark, {"id": 1, "name": "b"}, key=("id",), mode="append")
    run(tmp_path, spark, {"id": 1, "name": "c"}, key=("id",))
    assert names(tmp_path, spark) == ["c"]
