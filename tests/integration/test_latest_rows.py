"""The latest row of raw CDC files (docs/files.md): a table ordered by columns equals a query over all files."""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from tests.support import pipelines
from tests.support.pages import find_block
from tests.support.tiers import nightly_after

from headrace import Pipeline
from headrace.errors import DataError
from headrace.progress.model import BatchProgress

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.one_spark]

COLUMNS = ["id", "last_update", "seq", "amount", "Op"]
SCHEMA = pa.schema(
    [
        *(("Op", pa.string()), ("id", pa.int64()), ("last_update", pa.timestamp("us", "UTC"))),
        *(("seq", pa.int32()), ("amount", pa.decimal128(8, 2))),
    ]
)
TABLE = "shop.orders"


def make_versions(seed: int) -> list[dict[str, Any]]:
    """Return versions of 60 rows. Many have the time of another version, or none; no two have one time and one number."""
    chance = random.Random(seed)
    start = datetime(2026, 1, 31, tzinfo=UTC)
    times = [None, *(start + timedelta(microseconds=chance.randint(0, 10**11)) for _ in range(6))]
    numbers = chance.sample(range(-500, 500), 300)
    return [
        {
            "Op": chance.choice(["I", "U", "U", "D", None]),
            "id": chance.randint(1, 60),
            "last_update": chance.choice(times),
            "seq": number,
            "amount": chance.randint(0, 999),
        }
        for number in numbers
    ]


def write_files(folder: Path, versions: Sequence[dict[str, Any]], count: int, prefix: str) -> None:
    """Write versions into files, some of them into two."""
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(count):
        rows = [*versions[number::count], *versions[:15]]
        pq.write_table(pa.Table.from_pylist(rows, SCHEMA), folder / f"{prefix}-{number}.parquet")


def open_documented(folder: Path, sink: str, **rule: Any) -> Pipeline:
    """Return the pipeline of the page, in a folder, with batches of three files."""
    config = yaml.safe_load(find_block("docs/files.md", "yaml", "name: latest-orders"))
    config["source"]["files"] |= {"path": str(folder / "landing"), "maxFilesPerTrigger": 3}
    config["tables"][0] |= rule
    config["sink"] = pipelines.sink_block(sink, folder)
    return Pipeline.from_dict({**config, "checkpoint": str(folder / "checkpoint")})


def read_rows(pipeline: Pipeline, spark: SparkSession) -> list[tuple[Any, ...]]:
    found = pipelines.rows(pipeline, spark, TABLE, key="id")
    return [tuple(row[name] for name in COLUMNS) for row in found]


def read_documented_query(spark: SparkSession, folder: Path) -> list[tuple[Any, ...]]:
    query = find_block("docs/files.md", "", "ROW_NUMBER").replace("landing/", f"{folder}/landing/")
    return [tuple(row) for row in spark.sql(query).select(COLUMNS).orderBy("id").collect()]


@pytest.mark.parametrize("sink", nightly_after(1, pipelines.TABLE_SINKS))
def test_table_has_the_latest_row_of_files_in_any_order(tmp_path: Path, spark: SparkSession, sink: str) -> None:
    landing, versions = tmp_path / f"landing/{TABLE}", make_versions(seed=43)
    pipeline = open_documented(tmp_path, sink)
    for prefix, part in {"b": versions[:200], "a": versions[200:]}.items():
        write_files(landing, part, count=6 if prefix == "b" else 3, prefix=prefix)
        pipeline.run(spark)
        rows = read_rows(pipeline, spark)
        assert rows == read_documented_query(spark, tmp_path)
        assert len(rows) > 20
    # A late delete, and a version that is older than the delete.
    (newest, *_) = sorted(rows, key=lambda row: (row[1] is None, row))
    late = {"Op": "D", "id": newest[0], "last_update": datetime(2027, 1, 1, tzinfo=UTC), "seq": 0, "amount": None}
    write_files(landing, [late], count=1, prefix="0")
    pipeline.run(spark)
    write_files(landing, [{**late, "Op": "U", "last_update": None}], count=1, prefix="00")
    pipeline.run(spark)
    assert read_rows(pipeline, spark) == [row for row in rows if row[0] != newest[0]]
    assert read_documented_query(spark, tmp_path) == read_rows(pipeline, spark)


@pytest.mark.nightly
def test_other_columns_start_an_epoch(tmp_path: Path, spark: SparkSession) -> None:
    landing = tmp_path / f"landing/{TABLE}"
    first = {"Op": "I", "id": 1, "last_update": datetime(2026, 1, 31, tzinfo=UTC), "seq": 9, "amount": 1}
    write_files(landing, [first], count=1, prefix="a")
    pipeline = open_documented(tmp_path, "iceberg")
    (item,) = [item for item in pipeline.check(spark) if item.what == f"topic {TABLE}"]
    assert ", key id, ordered by the columns last_update (time), seq (number), columns Op, " in item.found
    pipeline.run(spark)
    write_files(landing, [{**first, "last_update": None, "seq": 1, "amount": 2}], count=1, prefix="b")
    batches: list[BatchProgress] = []
    open_documented(tmp_path, "iceberg", **{"order.by": "seq"}).run(spark, on_progress=batches.append)
    note = f"topic {TABLE} was ordered by the columns last_update (time), seq (number) and is now ordered by the columns seq (number)"
    notes = [table.note for batch in batches for table in batch.tables]
    assert notes == [f"{note}. From this batch on (epoch 1) every change is newer than all earlier ones"]
    assert [row[3] for row in read_rows(pipeline, spark)] == [2]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (
            {"transforms": [{"mask": {"columns": {"seq": {"nullify": True}}}}]},
            "the column 'seq' is hidden, and `order.by`",
        ),
        (
            {"tags": {"pii": ["seq"]}, "transforms": [{"drop": {"columns": ["seq"]}}]},
            "the column 'seq' has the tag 'pii', and `order.by`",
        ),
        (
            {"transforms": [{"rename": {"columns": {"seq": "n"}}}, {"mask": {"columns": {"n": {"nullify": True}}}}]},
            "the column 'n' is hidden, and `order.by`",
        ),
    ],
)
def test_hidden_columns_cannot_order_rows(
    tmp_path: Path, spark: SparkSession, changed: dict[str, Any], message: str
) -> None:
    write_files(tmp_path / f"landing/{TABLE}", make_versions(seed=1)[:1], count=1, prefix="a")
    source = {"files": {"path": str(tmp_path / "landing"), "format": "parquet"}}
    tables = [{"source": TABLE, "key": "id", "order.by": ["seq"]}]
    pipeline = pipelines.pipeline(tmp_path, source=source, tables=tables, **changed)
    with pytest.raises(DataError) as caught:
        pipeline.check(spark)
    assert message in caught.value.what
