"""Tables of Debezium Server, Flink CDC and MERGE jobs, made as these writers make them, and continued by a pipeline."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.generic_iceberg import UpsertWriter
from tests.support.iceberg import java_table, name_of

from headrace import Pipeline
from headrace.errors import HeadraceError
from headrace.sdk.changes import POSITION
from headrace.testing.tables import Target
from headrace_sinks.active_session import active
from headrace_sinks.delta import DeltaSink
from headrace_sinks.delta.delta_handle import DeltaHandle
from headrace_sinks.iceberg import IcebergSink

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.one_spark]

MADE = "2026-11-30T10:15:00"
#: Columns of the database's table, as each writer declares them.
PLAIN = "id INT NOT NULL, item STRING, note STRING, price DECIMAL(10,2), made TIMESTAMP_NTZ"
#: Columns of `debezium.transforms.unwrap.add.fields=op,table,source.ts_ms` and of kept deletes.
SERVER = f"{PLAIN}, __op STRING, __table STRING, __source_ts_ms TIMESTAMP, __deleted STRING"
UNAVAILABLE = "__debezium_unavailable_value"


def make_row(number: int, item: str, note: str = "n", **more: Any) -> dict[str, Any]:
    return {"id": number, "item": item, "note": note, "price": "1.50", "made": MADE, **more}


def make_event(topic: str, op: str, lsn: int, number: int, item: str = "", **more: Any) -> str:
    source = {
        "connector": "postgresql",
        "db": "shop",
        "schema": "public",
        "table": topic,
        "lsn": lsn,
        "ts_ms": lsn * 1000,
    }
    row: dict[str, Any] | None = make_row(number, item, **more)
    # PostgreSQL's default replica identity: a delete has the key alone.
    before, after = ({"id": number}, None) if op == "d" else (None, None if op == "t" else row)
    return json.dumps({"before": before, "after": after, "op": op, "ts_ms": lsn, "source": source}) + "\n"


def write_file(folder: Path, name: str, topics: Iterable[str], *events: tuple[Any, ...]) -> None:
    for topic in topics:
        file = folder / "landing" / topic / f"{name}.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        texts = [
            make_event(topic, *event[:-1], **event[-1]) if isinstance(event[-1], dict) else make_event(topic, *event)
            for event in events
        ]
        file.write_text("".join(texts), encoding="utf-8")


def write_overlap(folder: Path, *topics: str) -> None:
    """Write events that the other writer has applied, in the order of the log, and newer ones with a new column."""
    write_file(
        folder, "0", topics,
        ("c", 9, 4, "stool"), ("u", 15, 1, "lamp"), ("u", 20, 2, "desk"), ("u", 21, 1, "lamp, red"), ("d", 22, 4),
        ("u", 31, 3, "chair, oak", {"weight": 7}), ("d", 32, 5), ("c", 33, 6, "sofa"),
    )  # fmt: skip


def write_later(folder: Path, *topics: str) -> None:
    """Write late events and newer ones. An event omits a large value that only the other writer stored."""
    write_file(
        folder, "1", topics,
        ("u", 25, 3, "late"), ("u", 30, 5, "late"), ("u", 34, 7, "bed", {"note": UNAVAILABLE}), ("d", 35, 1),
    )  # fmt: skip


#: Rows of the other writer: the state of the database at LSN 22. No event changes row 8 later.
STORED = [
    make_row(1, "lamp, red"), make_row(2, "desk"), make_row(3, "chair"), make_row(5, "shelf"), make_row(7, "bunk", "large"),
    make_row(8, "clock"),
]  # fmt: skip
EXPECTED = {
    2: ("desk", "n", None), 3: ("chair, oak", "n", 7), 6: ("sofa", "n", None), 7: ("bed", "large", None), 8: ("clock", "n", None),
}  # fmt: skip


def sort_by_key(spark: SparkSession, target: Target) -> None:
    java = java_table(target)
    metadata = java.operations().current()
    jvm: Any = spark._jvm
    order = jvm.org.apache.iceberg.SortOrder.builderFor(java.schema()).asc("id").build()
    java.operations().commit(metadata, metadata.replaceSortOrder(order))


class Lake:
    """Iceberg tables in a folder, made by other writers."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark, self.folder, self.sink = spark, folder, IcebergSink({"warehouse": f"{folder}/lake"})

    def target(self, name: str) -> Target:
        return Target(self.sink, self.spark, name=f"shop.{name}")

    def create(self, name: str, columns: str, *, version: int = 2, partition: str = "", **properties: Any) -> Target:
        target = self.target(name)
        with active(self.spark):
            found = {"format-version": str(version), **properties}
            texts = ", ".join(f"'{key}' = '{value}'" for key, value in found.items())
            self.spark.sql(
                f"CREATE TABLE {name_of(target)} ({columns}) USING iceberg {partition} TBLPROPERTIES ({texts})"
            )
        return target

    def open_writer(self, target: Target) -> UpsertWriter:
        """Set the identifier fields of a table, and return a writer that deletes by equality of them."""
        java_table(target).updateSchema().setIdentifierFields(["id"]).commit()
        return UpsertWriter(self.spark._jvm, java_table(target))

    def make_flink_table(self, name: str = "flink", **options: Any) -> None:
        """Make a table of Flink's sink with `write.upsert.enabled`: identifier fields, equality deletes, no further columns."""
        target = self.create(name, PLAIN, **{"write.upsert.enabled": "true", **options})
        writer = self.open_writer(target)
        writer.upsert(*[{**row, "item": "old"} for row in STORED], make_row(4, "stool"))
        writer.upsert(*STORED)
        writer.delete({"id": 4})

    def make_server_table(self, name: str = "server", **options: Any) -> None:
        """Make a table of Debezium Server with `upsert` and `upsert-keep-deletes`: a deleted row stays and is marked."""
        target = self.create(name, SERVER, **options)
        sort_by_key(self.spark, target)
        writer = self.open_writer(target)
        live = {"__op": "c", "__table": name, "__source_ts_ms": "2026-11-30T10:15:00Z", "__deleted": "false"}
        writer.upsert(*[{**row, **live, "item": "old"} for row in STORED], {**make_row(4, "stool"), **live})
        writer.upsert(*[{**row, **live, "__op": "u"} for row in STORED])
        writer.upsert({"id": 4, **live, "__op": "d", "__deleted": "true"})

    def make_merged_table(self, name: str = "merged", **options: Any) -> None:
        """Make a table of a job with MERGE: plain columns, copy-on-write."""
        target = self.create(name, PLAIN.replace(" NOT NULL", ""), **options)
        self.merge(name_of(target))

    def merge(self, table: str) -> None:
        for item in ("old", None):
            rows = [{**row, "item": item or row["item"]} for row in STORED]
            columns = "id int, item string, note string, price string, made string"
            self.spark.createDataFrame(rows, columns).createOrReplaceTempView("changes")
            self.spark.sql(
                f"MERGE INTO {table} t USING (SELECT id, item, note, CAST(price AS DECIMAL(10,2)) AS price, "
                "CAST(made AS TIMESTAMP_NTZ) AS made FROM changes) s ON t.id = s.id "
                "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
            )

    def read(self, name: str) -> list[Any]:
        rows = self.sink.read_back(self.spark, self.target(name).table).orderBy("id").collect()
        assert len({row.id for row in rows}) == len(rows), rows
        return rows


#: Transforms that give the columns of Debezium Server, in their types, in the tables that it made.
SERVER_TRANSFORMS = [
    {"unwrap": {"tables.exclude": "shop.server"}},
    {
        "unwrap": {
            "tables": "shop.server",
            "add.fields": "op,table,source.ts_ms",
            "delete.tombstone.handling.mode": "rewrite",
        }
    },
    {"compute": {"columns": {"__source_ts_ms": "timestamp_micros(try_multiply(__source_ts_ms, 1000))"}}},
]


def make_pipeline(folder: Path, sink: dict[str, Any], **changes: Any) -> Pipeline:
    config = {
        "name": "shop",
        "source": {"files": {"path": f"{folder}/landing", "format": "json"}},
        "tables": [{"source": "*", "target": "shop.{topic}", "key": ["id"], "columns": {"made": "timestamp_ntz", "weight": "int"}}],
        "transforms": [{"unwrap": {}}],
        "sink": sink,
        "checkpoint": f"{folder}/checkpoint",
    }  # fmt: skip
    return Pipeline.from_dict({**config, **changes})


def list_values(rows: list[Any]) -> dict[int, tuple[Any, ...]]:
    return {row.id: (row.item, row.note, row.weight) for row in rows}


def check_notes(pipeline: Pipeline, spark: SparkSession, *tables: str) -> None:
    """Check that the comparison reports the tables that the first batch continues, and no error."""
    items = pipeline.check(spark, connect=True)
    assert [str(item.error) for item in items if item.error] == []
    notes = {item.what: item.found for item in items if "continues a table of another writer" in item.found}
    assert sorted(notes) == sorted(f"table shop.{table}" for table in tables)


def test_iceberg_tables_of_other_writers_are_continued(tmp_path: Path, spark: SparkSession) -> None:
    lake, names = Lake(spark, tmp_path), ("flink", "merged", "server")
    lake.make_flink_table()
    lake.make_merged_table()
    lake.make_server_table()
    write_overlap(tmp_path, *names)
    pipeline = make_pipeline(tmp_path, {"iceberg": {"warehouse": f"{tmp_path}/lake"}}, transforms=SERVER_TRANSFORMS)
    check_notes(pipeline, spark, *names)
    pipeline.run(spark)
    write_later(tmp_path, *names)
    pipeline.run(spark)
    check_notes(pipeline, spark)
    for name in ("flink", "merged"):
        assert list_values(lake.read(name)) == EXPECTED, name
    rows = lake.read("server")
    marks = {row.id: (row["__op"], row["__deleted"]) for row in rows}
    ops = {1: "d", 4: "d", 5: "d", 6: "c"}
    assert marks == {n: (ops.get(n, "u"), "true" if ops.get(n) == "d" else "false") for n in range(1, 9)}
    assert list_values([row for row in rows if row["__deleted"] == "false"]) == EXPECTED
    assert [row.made.isoformat() for row in rows if row.id in EXPECTED] == [MADE] * 5


def test_several_rows_of_a_key_and_masks_are_refused(tmp_path: Path, spark: SparkSession) -> None:
    """Debezium Server appends every change with its default `upsert=false`."""
    lake = Lake(spark, tmp_path)
    target = lake.create("appended", PLAIN)
    lake.open_writer(target).append(*STORED, make_row(1, "lamp"), make_row(2, "table"))
    write_overlap(tmp_path, "appended")
    sink = {"iceberg": {"warehouse": f"{tmp_path}/lake"}}
    pipeline = make_pipeline(tmp_path, sink)
    what = r"it has several rows for 2 values of the key \(id\)"
    assert [item.error is not None for item in pipeline.check(spark, connect=True)].count(True) == 1
    with pytest.raises(HeadraceError, match=what):
        pipeline.run(spark)
    with active(spark):
        assert POSITION not in spark.table(name_of(target)).columns
        spark.sql(f"DELETE FROM {name_of(target)} WHERE item IN ('lamp', 'table')")
    masks = [{"unwrap": {}}, {"mask": {"columns": {"item": {"nullify": True}}}}]
    masked = make_pipeline(tmp_path, sink, transforms=masks, checkpoint=f"{tmp_path}/masked")
    with pytest.raises(HeadraceError, match="no transform has changed, and transforms hide item"):
        masked.run(spark)
    pipeline.run(spark)
    write_later(tmp_path, "appended")
    pipeline.run(spark)
    assert list_values(lake.read("appended")) == EXPECTED


def run_both(folder: Path, spark: SparkSession, name: str, sink: dict[str, Any], **changes: Any) -> None:
    write_overlap(folder, name)
    make_pipeline(folder, sink, **changes).run(spark)
    write_later(folder, name)
    make_pipeline(folder, sink, **changes).run(spark)


def check_truncate(folder: Path, spark: SparkSession, name: str, sink: dict[str, Any], read: Any) -> None:
    """Check that a truncate also removes the row without a position."""
    write_file(folder, "2", [name], ("t", 40, 0), ("c", 41, 9, "stool"))
    make_pipeline(folder, sink).run(spark)
    assert list_values(read()) == {9: ("stool", "n", None)}


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("maker", "options", "config"),
    [
        ("merged", {"version": 1}, {}),
        ("merged", {"version": 3, "write.merge.mode": "merge-on-read"}, {}),
        ("merged", {"partition": "PARTITIONED BY (item)"}, {}),
        ("merged", {"partition": "PARTITIONED BY (bucket(4, id))", "write.merge.mode": "merge-on-read"}, {}),
        ("flink", {"write.merge.mode": "merge-on-read"}, {"readers": ["spark", "flink"]}),
        ("flink", {"write.format.default": "avro"}, {}),
        ("flink", {"write.distribution-mode": "range"}, {}),
    ],
)
def test_formats_of_iceberg_tables(
    tmp_path: Path, spark: SparkSession, maker: str, options: dict[str, Any], config: dict[str, Any]
) -> None:
    lake = Lake(spark, tmp_path)
    getattr(lake, f"make_{maker}_table")(**options)
    sink = {"iceberg": {"warehouse": f"{tmp_path}/lake", **config}}
    run_both(tmp_path, spark, maker, sink)
    assert list_values(lake.read(maker)) == EXPECTED
    check_truncate(tmp_path, spark, maker, sink, lambda: lake.read(maker))


@pytest.mark.nightly
@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
def test_deletes_of_a_key_alone_in_a_table_with_required_columns(
    tmp_path: Path, spark: SparkSession, mode: str
) -> None:
    lake = Lake(spark, tmp_path)
    options: dict[str, Any] = {"write.merge.mode": mode}
    target = lake.create(
        "required",
        "id INT NOT NULL, item STRING NOT NULL, note STRING NOT NULL, price DECIMAL(10,2) NOT NULL, made TIMESTAMP_NTZ NOT NULL",
        **options,
    )
    lake.open_writer(target).upsert(*STORED)
    run_both(tmp_path, spark, "required", {"iceberg": {"warehouse": f"{tmp_path}/lake"}})
    assert list_values(lake.read("required")) == EXPECTED


def make_delta_table(shared: SparkSession, path: str, properties: dict[str, str]) -> None:
    """Make a table of a job with Delta's MERGE."""
    spark = shared.newSession()
    spark.conf.set("spark.databricks.delta.requiredSparkConfsCheck.enabled", "false")
    columns = "id int, item string, note string, price string, made string"
    for item in ("old", None):
        rows = spark.createDataFrame([{**row, "item": item or row["item"]} for row in STORED], columns)
        rows = rows.withColumn("price", rows.price.cast("decimal(10,2)")).withColumn(
            "made", rows.made.cast("timestamp_ntz")
        )
        with active(spark):
            if item:
                rows.write.format("delta").options(**properties).save(path)
                continue
            handle = DeltaHandle.load(spark, path)
            assert handle is not None
            merge = handle.table.alias("t").merge(rows.alias("s")._jdf, "t.id = s.id")
            merge.whenMatched().updateAll().whenNotMatched().insertAll().execute()


@pytest.mark.nightly
@pytest.mark.parametrize(
    "properties",
    [
        {},
        {"delta.columnMapping.mode": "name", "delta.minReaderVersion": "2", "delta.minWriterVersion": "5"},
        {"delta.enableDeletionVectors": "true", "delta.enableChangeDataFeed": "true"},
        {"delta.enableRowTracking": "true"},
    ],
)
def test_delta_tables_of_merge_jobs_are_continued(
    tmp_path: Path, spark: SparkSession, properties: dict[str, str]
) -> None:
    sink = {"delta": {"path": f"{tmp_path}/lake"}}
    make_delta_table(spark, f"{tmp_path}/lake/shop/merged", properties)
    write_overlap(tmp_path, "merged")
    check_notes(make_pipeline(tmp_path, sink), spark, "merged")
    run_both(tmp_path, spark, "merged", sink)
    target = Target(DeltaSink(path=f"{tmp_path}/lake"), spark, name="shop.merged")

    def read() -> list[Any]:
        return target.sink.read_back(spark, target.table).collect()

    rows = read()
    assert list_values(rows) == EXPECTED
    assert len(rows) == len(EXPECTED)
    check_truncate(tmp_path, spark, "merged", sink, read)


@pytest.mark.nightly
def test_several_rows_of_a_key_in_a_delta_table_are_refused(tmp_path: Path, spark: SparkSession) -> None:
    path = f"{tmp_path}/lake/shop/merged"
    make_delta_table(spark, path, {})
    session = spark.newSession()
    session.conf.set("spark.databricks.delta.requiredSparkConfsCheck.enabled", "false")
    with active(session):
        session.read.format("delta").load(path).where("id = 1").write.format("delta").mode("append").save(path)
    write_overlap(tmp_path, "merged")
    with pytest.raises(HeadraceError, match=r"it has several rows for 1 values of the key \(id\)"):
        make_pipeline(tmp_path, {"delta": {"path": f"{tmp_path}/lake"}}).run(spark)
