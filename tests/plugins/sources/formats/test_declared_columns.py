"""JSON without schemas, with column types from the pipeline file."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.support import pipelines

from headrace import ConfigError, Pipeline

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

TOPIC = "shop.public.orders"
COLUMNS = {
    "price": "decimal(20,4)",
    "at": "io.debezium.time.MicroTimestamp",
    "born": "io.debezium.time.Date",
    "seen": "io.debezium.time.ZonedTimestamp",
    "n": "bigint",
    "tiny": "tinyint",
    "wide": "decimal(38,2)",
    "sums": "array<decimal(30,4)>",
    "done": "timestamp",
    "steps": "array<timestamp>",
    "day": "date",
    "ratio": "float",
}


def event(op: str, lsn: int, **row: Any) -> str:
    images = {"before": row, "after": None} if op == "d" else {"before": None, "after": row}
    source = {"connector": "postgresql", "ts_ms": 1, "lsn": lsn, "sequence": None}
    return json.dumps({**images, "source": source, "op": op})


def job(folder: Path, *batches: list[str], columns: dict[str, str] = COLUMNS, **changed: Any) -> Pipeline:
    topic = folder / "bronze/topics" / TOPIC / "partition=0"
    topic.mkdir(parents=True, exist_ok=True)
    for number, lines in enumerate(batches):
        (topic / f"{TOPIC}+0+{number:010d}.json").write_text("\n".join(lines))
    return pipelines.pipeline(
        folder,
        "iceberg",
        source={"files": {"path": str(folder / "bronze"), "format": "json"}},
        tables=[{"source": TOPIC, "key": "id", "target": "shop.orders", "columns": columns}],
        **changed,
    )


def read_texts(pipeline: Pipeline, spark: SparkSession) -> dict[int, dict[str, str | None]]:
    frame = pipeline.read("shop.orders", spark=spark)
    rows = frame.selectExpr(*[f"cast(`{name}` as string) as `{name}`" for name in frame.columns]).collect()
    return {int(row["id"]): row.asDict() for row in rows}


FIRST = event(
    "c",
    1,
    id=1,
    price="1234567890123456.7891",
    at=1_767_323_045_678_901,
    born=-30422,
    seen="2026-01-02T03:04:05.678901+02:00",
    n=1,
    tiny=-128,
    wide=f"{10**36 - 1}.99",
    sums=["1.5", 10**25],
    done="2026-01-02 03:04:05",
    steps=["2026-01-02 03:04:05.5"],
    day="2026-01-02",
    ratio=3.4028235e38,
)


@pytest.mark.nightly
def test_columns_have_declared_types(tmp_path: Path, spark: SparkSession) -> None:
    pipeline = job(tmp_path, [FIRST, event("c", 2, id=2, price=12.5, at=None, born=None, seen=None, n=2)])
    pipeline.run(spark)
    types = dict(pipeline.read("shop.orders", spark=spark).dtypes)
    assert {name: types[name] for name in COLUMNS} == {
        "price": "decimal(20,4)",
        "at": "timestamp_ntz",
        "born": "date",
        "seen": "timestamp",
        "n": "bigint",
        "tiny": "int",
        "wide": "decimal(38,2)",
        "sums": "array<decimal(30,4)>",
        "done": "timestamp",
        "steps": "array<timestamp>",
        "day": "date",
        "ratio": "float",
    }
    rows = read_texts(pipeline, spark)
    assert rows[1]["price"] == "1234567890123456.7891"
    assert (rows[1]["at"], rows[1]["born"]) == ("2026-01-02 03:04:05.678901", "1886-09-16")
    assert (rows[2]["price"], rows[2]["at"], rows[2]["born"]) == ("12.5000", None, None)


def test_value_that_does_not_match_its_type_is_a_dead_letter(tmp_path: Path, spark: SparkSession) -> None:
    invalid = [
        event("c", 2, id=2, price="much", n=2),
        event("c", 3, id=3, price="1.5", at="yesterday", n=3),
        event("c", 4, id=4, price="1.5", seen="yesterday", n=4),
        event("c", 5, id=5, price="1.00005", n=5),
        event("c", 6, id=6, price=1.00005, n=6),
        event("c", 7, id=7, price="1.5", n=9_223_372_036_854_775_808),
        event("c", 8, id=8, price="1.5", n=1.5),
        event("c", 9, id=9, price="1.5", tiny=200),
        event("c", 20, id=20, price="1.5", wide=1.005),
        event("c", 21, id=21, price="1.5", wide="1.00001"),
        event("c", 22, id=22, price="1.5", sums=["1", "1.0000000000001"]),
        event("c", 10, id=10, price="1.5", done=1_767_323_045),
        event("c", 11, id=11, price="1.5", done=""),
        event("c", 13, id=13, price="1.5", done="10:20:30"),
        event("c", 12, id=12, price="1.5", steps=[None, 1_767_323_045_678]),
        event("c", 23, id=23, price="1,5"),
        event("c", 24, id=24, sums=["1", "1,000.5"]),
        *[event("c", 25 + n, id=25 + n, day=day) for n, day in enumerate(["20260102", "202601", "2026-02-30", 20455])],
        event("c", 29, id=29, ratio=1e300),
    ]
    pipeline = job(tmp_path, [FIRST, *invalid])
    (summary,) = pipeline.run(spark).tables
    assert (summary.rows_in, summary.applied, summary.dead_letters) == (23, 1, 22)
    [(id_, row)] = read_texts(pipeline, spark).items()
    assert (id_, row["tiny"], row["done"]) == (1, "-128", "2026-01-02 03:04:05")
    assert (row["wide"], row["sums"]) == (f"{10**36 - 1}.99", f"[1.5000, {10**25}.0000]")
    assert row["steps"] == "[2026-01-02 03:04:05.5]"
    assert (row["day"], row["ratio"]) == ("2026-01-02", "3.4028235E38")
    dead_letters = pipeline.read_dead_letters(spark)
    assert dead_letters is not None
    assert [row["error"].split(" does not fit its type ") for row in dead_letters.orderBy("offset").collect()] == [
        ["the field `after.price`", "decimal(20,4)"],
        ["the field `after.at`", "timestamp_ntz"],
        ["the field `after.seen`", "timestamp"],
        ["the field `after.price`", "decimal(20,4)"],
        ["the field `after.price`", "decimal(20,4)"],
        ["the field `after.n`", "bigint"],
        ["the field `after.n`", "bigint"],
        ["the field `after.tiny`", "tinyint"],
        ["the field `after.wide`", "decimal(38,2)"],
        ["the field `after.wide`", "decimal(38,2)"],
        ["the field `after.sums`", "array<decimal(30,4)>"],
        *[["the field `after.done`", "timestamp"]] * 3,
        ["the field `after.steps`", "array<timestamp>"],
        ["the field `after.price`", "decimal(20,4)"],
        ["the field `after.sums`", "array<decimal(30,4)>"],
        *[["the field `after.day`", "date"]] * 4,
        ["the field `after.ratio`", "float"],
    ]


def test_flat_rows_may_have_columns_with_the_names_of_row_images(tmp_path: Path, spark: SparkSession) -> None:
    row = {"id": 1, "before": "a", "after": 2, "price": "1.5"}
    pipeline = job(tmp_path, [json.dumps(row)], columns={"price": "decimal(9,2)"}, transforms=[])
    pipeline.run(spark)
    assert read_texts(pipeline, spark) == {1: {"id": "1", "before": "a", "after": "2", "price": "1.50"}}


@pytest.mark.nightly
def test_later_batch_keeps_types_and_adds_columns(tmp_path: Path, spark: SparkSession) -> None:
    job(tmp_path, [event("c", 1, id=1, price="1.5", n=1)]).run(spark)
    pipeline = job(tmp_path, [event("c", 1, id=1, price="1.5", n=1)], [FIRST.replace('"lsn": 1,', '"lsn": 9,')])
    pipeline.run(spark)
    assert read_texts(pipeline, spark)[1]["at"] == "2026-01-02 03:04:05.678901"
    assert pipeline.read("shop.orders", spark=spark).select("price").head() == (Decimal("1234567890123456.7891"),)


@pytest.mark.nightly
def test_existing_table_provides_types(tmp_path: Path, spark: SparkSession) -> None:
    columns = {"price": "decimal(12,4)", "n": "double", "weight": "decimal(9,2)"}
    first = [event("c", 1, id=1, price="1.5", n=1, weight=2)]
    job(tmp_path, first, columns=columns).run(spark)
    later = [event("u", 2, id=1, price="2.25", n=2, weight=1), event("c", 3, id=2, price="0.12345", n=1, weight=1)]
    last = [event("c", 4, id=3, price="7", n=3, weight=1)]
    pipeline = job(tmp_path, first, later, last, columns={}, checkpoint=str(tmp_path / "another"))
    (summary,) = pipeline.run(spark).tables
    assert summary.dead_letters == 1
    assert {id_: (row["price"], row["n"], row["weight"]) for id_, row in read_texts(pipeline, spark).items()} == {
        1: ("2.2500", "2.0", "1.00"),
        3: ("7.0000", "3.0", "1.00"),
    }


@pytest.mark.parametrize("kind", ["decimall", "io.debezium.time.Microtimestamp", "int, b int", ""])
def test_invalid_type(tmp_path: Path, spark: SparkSession, kind: str) -> None:
    with pytest.raises(ConfigError, match="is not a type of the column 'price'") as caught:
        job(tmp_path, [FIRST], columns={"price": kind}).run(spark)
    assert repr(kind) in str(caught.value)


def test_declared_types_with_embedded_schema_are_rejected(tmp_path: Path, spark: SparkSession) -> None:
    schema = {"type": "struct", "fields": [{"field": "id", "type": "int32"}]}
    with pytest.raises(ConfigError, match="but the records have a schema"):
        job(tmp_path, [json.dumps({"schema": schema, "payload": {"id": 1}})], columns={"id": "bigint"}).run(spark)


def test_type_other_than_a_string(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="price"):
        job(tmp_path, columns={"price": ["decimal"]})  # type: ignore[dict-item]
