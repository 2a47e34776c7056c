"""Iceberg tables read by PyIceberg, which shares no code with Spark, and tables that contradict their configured readers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.table import StaticTable
from tests.support import pipelines
from tests.support.bronze import Bronze
from tests.support.iceberg import name_of
from tests.support.tiers import nightly_after

from headrace import ConfigError, DataError
from headrace.sdk.maintenance import MaintenancePolicy
from headrace.spark.sessions import Sessions
from headrace.testing.tables import Target, put, remove
from headrace_sinks.active_session import active
from headrace_sinks.iceberg import IcebergSink
from headrace_sinks.iceberg.iceberg_catalog import load_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

PEOPLE = "id int, name string"
EVERYTHING = MaintenancePolicy(history_seconds=3600, files=2)


@pytest.fixture
def session(sessions: Sessions) -> SparkSession:
    return sessions.of("readers")


def make(folder: Path, session: SparkSession, **options: Any) -> Target:
    return Target(IcebergSink(warehouse=str(folder), **options), session, name="shop.people")


def read_by_pyiceberg(folder: Path) -> list[dict[str, Any]]:
    files = (folder / "shop/people/metadata").glob("v*.metadata.json")
    newest = max(files, key=lambda file: int(file.name.split(".")[0][1:]))
    found: list[dict[str, Any]] = StaticTable.from_metadata(newest.as_uri()).scan().to_arrow().to_pylist()
    return sorted(found, key=lambda row: row["id"])


def read_by_spark(target: Target) -> list[dict[str, Any]]:
    rows = target.sink.read_back(target.session, target.table).orderBy("id").collect()
    return [row.asDict(recursive=True) for row in rows]


@pytest.mark.parametrize(
    "options",
    nightly_after(
        1,
        [
            pytest.param({"readers": ["spark", "pyiceberg"]}, id="merge-on-read"),
            pytest.param(
                {"readers": ["spark", "pyiceberg"], "format-version": 3},
                id="deletion-vectors",
                marks=pytest.mark.one_spark,
            ),
            pytest.param(
                {"readers": ["spark", "pyiceberg", "databricks"]}, id="copy-on-write", marks=pytest.mark.one_spark
            ),
        ],
    ),
)
def test_pyiceberg_and_spark_read_the_same_rows(tmp_path: Path, session: SparkSession, options: dict[str, Any]) -> None:
    target = make(tmp_path, session, **options)
    target.write(PEOPLE, *[put(1, number, f"n{number}") for number in range(1, 6)])
    target.write(PEOPLE, put(2, 1, "newer"), remove(2, 2, None))
    # A wider type, a new column, a struct, and then a new field in the struct.
    target.write("id bigint, name string, born struct<year:int>", put(3, 3, "c", (1900,)), put(3, 6, "f", (1950,)))
    born = "id bigint, name string, born struct<year:int,place:string>"
    target.write(born, put(4, 6, "newest", (1951, "Brno")), remove(4, 4, None, None))
    expected = [(1, "newer", None), (3, "c", (1900, None)), (5, "n5", None), (6, "newest", (1951, "Brno"))]
    for _ in range(2):
        by_pyiceberg = read_by_pyiceberg(tmp_path)
        assert by_pyiceberg == read_by_spark(target)
        found = [(row["id"], row["name"], row["born"] and tuple(row["born"].values())) for row in by_pyiceberg]
        assert found == expected
        steps = [step.run() for step in target.sink.plan_maintenance(session, target.table, EVERYTHING)]
    assert not steps, "the second time there was nothing left to do"


@pytest.mark.one_spark
def test_copy_on_write_in_format_version_3_has_plain_error(tmp_path: Path, session: SparkSession) -> None:
    target = make(tmp_path, session, **{"table.type": "copy-on-write", "format-version": 3})
    target.write(PEOPLE, put(1, 1, "a"))
    caught = target.refusal(lambda: target.write(PEOPLE, put(2, 1, "b")))
    assert isinstance(caught, ConfigError)
    assert caught.what == "copy-on-write does not support tables of format version 3 on Spark 3.5"
    assert target.rows() == [{"id": 1, "name": "a"}]


def test_table_for_other_readers_fails_check_and_next_batch(tmp_path: Path, session: SparkSession) -> None:
    before = make(tmp_path, session)
    before.write(PEOPLE, put(1, 1, "a"), put(1, 2, "b"))
    after = make(tmp_path, session, readers=["spark", "databricks"])
    sentence = (
        "table shop.people, sink iceberg, readers: the table is merge-on-read, and databricks ignores position deletes\n"
        "  fix: ALTER TABLE shop.people SET TBLPROPERTIES ('write.merge.mode' = 'copy-on-write', "
    )
    for operation in (
        lambda: after.sink.check_stored(session, after.table),
        lambda: after.write(PEOPLE, remove(2, 2, "b")),
    ):
        with pytest.raises(ConfigError) as caught:
            operation()
        assert str(caught.value).startswith(sentence)
    assert [row["id"] for row in before.rows()] == [1, 2]
    # Appends delete no rows.
    after.write(PEOPLE, put(3, 3, "c"), mode="append")
    assert [row["id"] for row in before.rows()] == [1, 2, 3]


@pytest.mark.nightly
def test_check_reports_old_deletes_until_files_are_rewritten(tmp_path: Path, session: SparkSession) -> None:
    before = make(tmp_path, session)
    before.write(PEOPLE, put(1, 1, "a"), put(1, 2, "b"))
    before.write(PEOPLE, remove(2, 2, "b"))
    after = make(tmp_path, session, readers=["databricks"])
    with active(session):
        java = load_table(session, before.sink._name(session, before.table))  # type: ignore[attr-defined]
        java.updateProperties().set("write.merge.mode", "copy-on-write").set("write.update.mode", "copy-on-write").set(
            "write.delete.mode", "copy-on-write"
        ).commit()
    with pytest.raises(
        ConfigError, match="position deletes remove 1 rows of the table, and databricks ignores"
    ) as caught:
        after.sink.check_stored(session, after.table)
    assert "rewrite_data_files(table => 'shop.people'" in str(caught.value.fix)
    after.write(PEOPLE, put(3, 3, "c"))
    with active(session):
        java.refresh()
        actions = session._jvm.org.apache.iceberg.spark.actions.SparkActions.get(session._jsparkSession)  # type: ignore[union-attr]
        actions.rewriteDataFiles(java).option("delete-file-threshold", "1").option(
            "remove-dangling-deletes", "true"
        ).execute()
    after.sink.check_stored(session, after.table)
    assert [row["id"] for row in read_by_pyiceberg(tmp_path)] == [1, 3]


@pytest.mark.nightly
def test_check_reports_equality_deletes_of_another_writer(tmp_path: Path, session: SparkSession) -> None:
    target = make(tmp_path, session, readers=["spark", "pyiceberg"])
    target.write(PEOPLE, put(1, 1, "a"), put(1, 2, "b"))
    target.sink.check_stored(session, target.table)
    _delete_by_equality(tmp_path, target, ids=[2])
    assert [row["id"] for row in target.rows()] == [1]
    with pytest.raises(ConfigError) as caught:
        target.sink.check_stored(session, target.table)
    assert caught.value.what == "equality deletes remove 1 rows of the table, and pyiceberg refuses equality deletes"
    make(tmp_path, session, readers=["spark", "duckdb"]).sink.check_stored(session, target.table)


def _delete_by_equality(folder: Path, target: Target, ids: list[int]) -> None:
    """Write an equality delete file, as Flink's upserts do."""
    session = target.session
    path = folder / "shop/people/data/deletes.parquet"
    with active(session):
        java = load_table(session, target.sink._name(session, target.table))  # type: ignore[attr-defined]
        field = java.schema().findField("id").fieldId()
        schema = pa.schema([pa.field("id", pa.int32(), metadata={"PARQUET:field_id": str(field)})])
        pq.write_table(pa.table({"id": ids}, schema=schema), path)
        fields = session.sparkContext._gateway.new_array(session._jvm.int, 1)  # type: ignore[union-attr]
        fields[0] = field
        file = session._jvm.org.apache.iceberg.FileMetadata.deleteFileBuilder(java.spec())  # type: ignore[union-attr]
        file = file.ofEqualityDeletes(fields).withPath(path.as_uri()).withFormat("parquet")
        file = file.withFileSizeInBytes(path.stat().st_size).withRecordCount(len(ids)).build()
        java.newRowDelta().addDeletes(file).commit()


@pytest.mark.nightly
def test_field_name_unsupported_by_a_reader_leaves_table_unchanged(tmp_path: Path, session: SparkSession) -> None:
    target = make(tmp_path, session, readers=["bigquery"])
    target.write(PEOPLE, put(1, 1, "a"))
    with pytest.raises(DataError, match="bigquery does not support the column name 'post code'"):
        target.write("id int, name string, home struct<`post code`:string>", put(2, 2, "b", ("1010",)))
    assert target.rows() == [{"id": 1, "name": "a"}]


@pytest.mark.one_spark
def test_check_reports_unreadable_tables_of_a_pipeline(
    tmp_path: Path, spark: SparkSession, session: SparkSession
) -> None:
    bronze = Bronze(tmp_path / "bronze")
    artists = bronze.topic(pipelines.TOPIC, key="artist_id", columns=pipelines.COLUMNS, full=False)
    artists.insert({"artist_id": 1, "name": "Arp", "nationality": "German"})
    bronze.flush()
    sink = IcebergSink(warehouse=str(tmp_path / "lake/iceberg"))
    Target(sink, session, ("artist_id",), pipelines.TABLE).write("artist_id int, name string", put(1, 1, "Arp"))
    block = pipelines.sink_block("iceberg", tmp_path, readers=["databricks"])
    items = pipelines.pipeline(tmp_path, sinks=[block]).check(spark)
    assert [item.error.what for item in items if item.error] == [
        "the table is merge-on-read, and databricks ignores position deletes"
    ]
    assert ["new tables are copy-on-write" in item.found for item in items if item.what == "warning"] == [True]
    assert ["`start-snapshot-id`" in item.found for item in items if item.what == "note"] == [True]


@pytest.mark.one_spark
def test_incremental_reads_return_rows_of_tables_that_are_appended_to(tmp_path: Path, session: SparkSession) -> None:
    found, notes = {}, {}
    modes: dict[str, Literal["upsert", "append"]] = {"upsert": "upsert", "changelog": "append"}
    for mode, writes in modes.items():
        sink = IcebergSink(warehouse=str(tmp_path / mode), mode=mode)
        target = Target(sink, session, name="shop.people")
        target.write(PEOPLE, put(1, 1, "a"), mode=writes)
        target.write(PEOPLE, put(2, 1, "b"), put(3, 2, "c"), mode=writes)
        snapshots = session.table(f"{name_of(target)}.snapshots").orderBy("committed_at").collect()
        first, last = (row["snapshot_id"] for row in snapshots)
        reader = session.read.format("iceberg").option("start-snapshot-id", first).option("end-snapshot-id", last)
        found[mode] = sorted(row["name"] for row in reader.load(f"{tmp_path}/{mode}/shop/people").collect())
        notes[mode] = len(list(sink.notes()))
        versions = [f"SELECT id, name FROM {name_of(target)} VERSION AS OF {snapshot}" for snapshot in (last, first)]
        assert {row["name"] for row in session.sql(" EXCEPT ".join(versions)).collect()} == {"b", "c"}
    assert found == {"upsert": [], "changelog": ["b", "c"]}
    assert notes == {"upsert": 1, "changelog": 0}
