from __future__ import annotations

import datetime as dt
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.support import pipelines
from tests.support.bronze import Bronze
from tests.support.kit import skip_type_independent_tests
from tests.support.tiers import nightly_after

from headrace import ConfigError, DataError, PluginError, RetriableError
from headrace.runtime.session.session_check import check_session
from headrace.sdk.sink import Batch, Table, WriteResult
from headrace.spark.sessions import Sessions
from headrace.testing._internal.meantime import in_the_meantime
from headrace.testing.sinks import SinkConformance
from headrace.testing.tables import Target, put, remove
from headrace_sinks.iceberg import IcebergSink, table_handle
from headrace_sinks.iceberg.iceberg_catalog import configure_folder_catalog, load_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

PEOPLE = "id int, name string"


class TestMergeOnRead(SinkConformance):
    plugin_class = IcebergSink
    faults = 4

    def config(self, folder: Path) -> Mapping[str, Any]:
        return {"warehouse": str(folder)}


@pytest.mark.nightly
@pytest.mark.one_spark
@skip_type_independent_tests
class TestDeletesByKey(SinkConformance):
    plugin_class = IcebergSink
    faults = 2

    def config(self, folder: Path) -> Mapping[str, Any]:
        return {"warehouse": str(folder), "readers": ["spark"]}


@pytest.mark.nightly
@pytest.mark.one_spark
@skip_type_independent_tests
class TestCopyOnWrite(SinkConformance):
    plugin_class = IcebergSink
    faults = 0  # the write steps are the same

    def config(self, folder: Path) -> Mapping[str, Any]:
        return {"warehouse": str(folder), "table.type": "copy-on-write"}


@pytest.fixture
def target(tmp_path: Path, sessions: Sessions) -> Target:
    return Target(IcebergSink(warehouse=str(tmp_path)), sessions.of("one"))


def metadata(folder: Path, target: Target) -> dict[str, Any]:
    """Return the newest metadata file of a table in a folder."""
    files = (folder / target.name.replace(".", "/") / "metadata").glob("v*.metadata.json")
    newest = max(files, key=lambda file: int(file.name.split(".")[0][1:]))
    found: dict[str, Any] = json.loads(newest.read_text())
    return found


def summaries(folder: Path, target: Target) -> list[dict[str, str]]:
    return [snapshot["summary"] for snapshot in metadata(folder, target)["snapshots"]]


# The mark of the batch


@pytest.mark.parametrize("mode", ["upsert", "append"])
def test_snapshots_name_their_batch_and_repeated_batch_is_skipped(target: Target, tmp_path: Path, mode: Any) -> None:
    target.write(PEOPLE, put(1, 1, "a"), mode=mode)
    other = Target(target.sink, target.session, name=target.name)
    target.write(PEOPLE, put(2, 2, "b"), mode=mode)
    other.write(PEOPLE, put(3, 3, "c"), mode=mode)
    again = target.write_again(PEOPLE, put(2, 2, "b"), mode=mode)
    assert again == WriteResult(version=again.version, skipped=True)
    marks = [summary["headrace.batch"] for summary in summaries(tmp_path, target)]
    assert marks == [f"{target.pipeline}:0:1", f"{target.pipeline}:1:1", f"{other.pipeline}:0:1"]


def test_older_batch_repeats_after_checkpoint_restore(target: Target) -> None:
    for number in range(3):
        target.write(PEOPLE, put(number, number, "a"))
    target.batch = 0
    assert not target.write_again(PEOPLE, put(9, 9, "what the older batch holds now")).skipped
    assert [row["id"] for row in target.rows()] == [0, 1, 2, 9]


@pytest.mark.parametrize("mode", ["upsert", "append"])
def test_batch_is_applied_once_after_its_snapshot_expired(target: Target, tmp_path: Path, mode: Any) -> None:
    target.write(PEOPLE, put(1, 1, "a"), mode=mode)
    target.write(PEOPLE, put(2, 2, "b"), put(3, 3, "c"), mode=mode)
    name = f"{configure_folder_catalog(target.session, str(tmp_path))}.{target.name}"
    target.session.sql(f"INSERT INTO {name} VALUES (9, 'by hand', '9')")
    load_table(target.session, name).expireSnapshots().expireOlderThan(2**62).retainLast(1).commit()
    assert len(summaries(tmp_path, target)) == 1
    again = target.write_again(PEOPLE, put(2, 2, "b"), put(3, 3, "c"), mode=mode)
    assert not again.upserted
    assert [row["id"] for row in target.rows()] == [1, 2, 3, 9]
    target.write(PEOPLE, put(4, 4, "d"), mode=mode)
    assert [row["id"] for row in target.rows()] == [1, 2, 3, 4, 9]


def test_appends_of_two_pipelines_with_equal_positions_after_many_commits(
    target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_handle, "MARK_SEARCH_DEPTH", 1)
    other = Target(target.sink, target.session, name=target.name)
    for number in (1, 2):
        target.write(PEOPLE, put(number, number, "a"), mode="append")
    other.write(PEOPLE, put(1, 1, "b"), mode="append")
    assert target.write_again(PEOPLE, put(2, 2, "a"), mode="append").skipped
    assert [tuple(row.values()) for row in target.rows()] == [(1, "a"), (1, "b"), (2, "a")]


# Other writers


def test_concurrent_commit_is_retriable(target: Target, sessions: Sessions) -> None:
    target.write(PEOPLE, put(1, 1, "a"))
    other = Target(target.sink, sessions.of("other"), name=target.name)
    with in_the_meantime(lambda: other.write(PEOPLE, put(2, 2, "b"))) as interleave:
        error = target.refusal(lambda: target.apply(interleave(target.frame(PEOPLE, put(3, 1, "A")))))
    assert isinstance(error, RetriableError)
    assert "conflicting" in str(error)
    target.write(PEOPLE, put(3, 1, "A"))
    assert target.rows() == [{"id": 1, "name": "A"}, {"id": 2, "name": "b"}]


@pytest.mark.nightly
def test_pipeline_retries_after_concurrent_commit(tmp_path: Path, spark: SparkSession, sessions: Sessions) -> None:
    class Contended(IcebergSink):
        tries = 0

        def write(self, table: Table, rows: DataFrame, batch: Batch) -> WriteResult:
            type(self).tries += 1
            if batch.id == 0 or self.tries > 2:
                return super().write(table, rows, batch)
            columns = "artist_id int, name string, nationality string"
            other = Target(sink, sessions.of("other"), ("artist_id",), pipelines.TABLE)
            with in_the_meantime(lambda: other.write(columns, put(1, 9, "other", None))) as interleave:
                return super().write(table, interleave(rows), batch)

    sink = IcebergSink(warehouse=str(tmp_path / "lake" / "iceberg"))
    bronze = Bronze(tmp_path / "bronze")
    artists = bronze.topic(pipelines.TOPIC, key="artist_id", columns=pipelines.COLUMNS)
    pipeline = pipelines.pipeline(tmp_path)
    pipeline.sinks = [Contended(warehouse=str(tmp_path / "lake" / "iceberg"))]
    pipeline.__post_init__()
    arp = {"artist_id": 1, "name": "Arp", "nationality": "French"}
    artists.snapshot(arp)
    bronze.flush()
    pipeline.run(spark)
    artists.update(arp, {**arp, "name": "Hans Arp"})
    bronze.flush()
    pipeline.run(spark)
    assert Contended.tries == 3
    assert [row["name"] for row in pipelines.rows(pipeline, spark)] == ["Hans Arp", "other"]


def test_only_conflicts_are_retriable() -> None:
    sink = IcebergSink(warehouse="/nowhere")
    conflict = "org.apache.iceberg.exceptions.ValidationException: Found conflicting files that can contain records"
    assert isinstance(sink.explain(RuntimeError(conflict)), RetriableError)
    unknown = "org.apache.iceberg.exceptions.CommitStateUnknownException: timeout"
    assert isinstance(sink.explain(RuntimeError(unknown)), RetriableError)
    wrong = "org.apache.iceberg.exceptions.ValidationException: Cannot find field 'x' in struct"
    assert sink.explain(RuntimeError(wrong)) is None


@pytest.mark.parametrize("table_type", nightly_after(1, ["merge-on-read", "copy-on-write"]))
def test_pipeline_counts_applied_and_late_rows(tmp_path: Path, spark: SparkSession, table_type: str) -> None:
    bronze = Bronze(tmp_path / "bronze")
    artists = bronze.topic(pipelines.TOPIC, key="artist_id", columns=pipelines.COLUMNS)
    row = {"artist_id": 1, "name": "a", "nationality": None}
    artists.insert({**row, "artist_id": 2})
    artists.update(row, {**row, "name": "late"})
    late = artists.pending.pop()
    artists.update(row, {**row, "name": "new"})
    bronze.flush()
    pipeline = pipelines.pipeline(
        tmp_path, sinks=[pipelines.sink_block("iceberg", tmp_path, **{"table.type": table_type})]
    )
    pipeline.run(spark)
    artists.pending.append(late)
    artists.update({**row, "artist_id": 2}, {**row, "artist_id": 2, "name": "b"})
    bronze.flush()
    (summary,) = pipeline.run(spark).tables
    counted = (1, 1) if table_type == "merge-on-read" else (2, None)
    assert (summary.rows_in, summary.applied, summary.late) == (2, *counted)
    assert [row["name"] for row in pipelines.rows(pipeline, spark)] == ["new", "b"]


# Tables


def test_table_properties_pass_through(tmp_path: Path, sessions: Sessions) -> None:
    options = {"write.parquet.compression-codec": "gzip", "write.merge.mode": "copy-on-write"}
    target = Target(IcebergSink(warehouse=str(tmp_path), **options), sessions.of("one"))
    target.write(PEOPLE, put(1, 1, "a"))
    found = metadata(tmp_path, target)
    assert found["properties"]["write.parquet.compression-codec"] == "gzip"
    assert found["properties"]["write.merge.mode"] == "copy-on-write"
    assert found["properties"]["write.delete.mode"] == "merge-on-read"


def test_rows_are_replaced_in_format_version_without_deletes(tmp_path: Path, sessions: Sessions) -> None:
    target = Target(IcebergSink(warehouse=str(tmp_path), **{"format-version": 1}), sessions.of("one"))
    target.write(PEOPLE, put(1, 1, "a"), put(1, 2, "b"), put(1, 3, "c"))
    target.write(PEOPLE, put(2, 1, "A"), remove(2, 2, None))
    assert [row["name"] for row in target.rows()] == ["A", "c"]
    assert metadata(tmp_path, target)["format-version"] == 1


def test_table_is_partitioned_by_its_columns(tmp_path: Path, sessions: Sessions) -> None:
    fields = ["bucket(4, id)", "months( made )", "hours(at)", "a b"]
    table = Target(IcebergSink({"warehouse": str(tmp_path), "partition.by": {"*": fields}}), sessions.of("one"))
    row = (dt.date(2026, 11, 23), dt.datetime(2026, 11, 23, 12, tzinfo=dt.UTC), "x")
    table.write("id int, made date, at timestamp, `a b` string", put(1, 1, *row))
    (spec,) = metadata(tmp_path, table)["partition-specs"]
    assert [field["transform"] for field in spec["fields"]] == ["bucket[4]", "month", "hour", "identity"]


def test_wrong_column_type_for_a_partition(tmp_path: Path, sessions: Sessions) -> None:
    table = Target(IcebergSink({"warehouse": str(tmp_path), "partition.by": {"*": ["days(name)"]}}), sessions.of("one"))
    error = table.refusal(lambda: table.write(PEOPLE, put(1, 1, "a")))
    assert isinstance(error, ConfigError)
    assert "does not support the type of its column: Invalid source type string for transform: day" in str(error)


@pytest.mark.parametrize(
    "field", ["weeks(made)", "bucket(id)", "bucket(0, id)", "days(1, made)", "days(made", "made)", "days()", ""]
)
def test_invalid_partition_fields(tmp_path: Path, field: str) -> None:
    with pytest.raises(ConfigError, match="is not a partition field; use column, years"):
        IcebergSink({"warehouse": str(tmp_path), "partition.by": {"*": [field]}})


def test_columns_are_widened(target: Target) -> None:
    target.write("id int, a int, b float, c decimal(5,2), s struct<x: int>", put(1, 1, 1, 0.5, None, (1,)))
    target.write(
        "id bigint, a bigint, b double, c decimal(9,2), s struct<x: bigint>", put(2, 2, 2**40, 0.1, None, (2**40,))
    )
    target.write("id int, a smallint, b float, c decimal(4,1), s struct<x: int>", put(3, 3, 7, 0.5, None, (3,)))
    assert dict(target.read().dtypes) == {
        "id": "bigint", "a": "bigint", "b": "double", "c": "decimal(9,2)", "s": "struct<x:bigint>",
    }  # fmt: skip
    assert [row["s"]["x"] for row in target.rows()] == [1, 2**40, 3]
    error = target.refusal(lambda: target.write("id bigint, s struct<x: string>", put(4, 4, ("x",))))
    assert isinstance(error, DataError)
    assert "'s.x' has type string in the batch and bigint in the table" in str(error)


def test_column_names_are_case_insensitive(target: Target) -> None:
    target.write("id int, Name string", put(1, 1, "a"))
    target.write("ID int, name string", put(2, 1, "A"))
    assert target.rows() == [{"id": 1, "Name": "A"}]


def test_table_created_by_another_writer(target: Target, tmp_path: Path) -> None:
    target.write(PEOPLE, put(1, 1, "a"))
    session, catalog = target.session, configure_folder_catalog(target.session, f"file:{tmp_path}")
    session.sql(f"CREATE TABLE {catalog}.kit.theirs (id INT, name STRING) USING iceberg")
    session.sql(f"INSERT INTO {catalog}.kit.theirs VALUES (1, 'a'), (2, 'b')")
    theirs = Target(target.sink, session, name="kit.theirs")
    theirs.write(PEOPLE, put(1, 1, "A"), remove(2, 2, None), put(3, 3, "c"))
    theirs.write(PEOPLE, put(0, 1, "late"), put(4, 3, "C"))
    assert theirs.rows() == [{"id": 1, "name": "A"}, {"id": 3, "name": "C"}]


@pytest.mark.parametrize("table_type", nightly_after(1, ["merge-on-read", "copy-on-write"]))
def test_null_in_a_not_null_column_is_explained(table_type: str, tmp_path: Path, sessions: Sessions) -> None:
    target = Target(IcebergSink({"warehouse": str(tmp_path), "table.type": table_type}), sessions.of("one"))
    target.write(PEOPLE, put(1, 1, "a"))
    session, catalog = target.session, configure_folder_catalog(target.session, f"file:{tmp_path}")
    properties = f"'format-version'='2', 'write.merge.mode'='{table_type}'"
    session.sql(
        f"CREATE TABLE {catalog}.kit.strict (id INT, name STRING NOT NULL) USING iceberg TBLPROPERTIES ({properties})"
    )
    strict = Target(target.sink, session, name="kit.strict")
    strict.write(PEOPLE, put(1, 1, "a"), put(2, 2, "b"))
    error = strict.refusal(lambda: strict.write(PEOPLE, put(3, 3, None)))
    assert isinstance(error, DataError)
    assert "the table's column 'name' is NOT NULL, and a row of the batch has no value" in str(error)
    strict.write(PEOPLE, remove(4, 2, None), put(5, 1, "A"), put(5, 3, "c"))
    strict.write("id int", remove(6, 3))  # as a truncate and a tombstone delete a row
    assert strict.rows() == [{"id": 1, "name": "A"}]
    error = strict.refusal(lambda: strict.write("id int", put(7, 1)))
    assert "the table's column 'name' is NOT NULL, and a row of the batch has no value" in str(error)


def test_two_warehouses_in_one_session(tmp_path: Path, sessions: Sessions) -> None:
    targets = [
        Target(IcebergSink(warehouse=str(tmp_path / side)), sessions.of("one"), name="kit.same") for side in "ab"
    ]
    for number, target in enumerate(targets):
        target.write(PEOPLE, put(1, number, "a"))
    assert [target.rows()[0]["id"] for target in targets] == [0, 1]


def test_missing_version(target: Target) -> None:
    target.write(PEOPLE, put(1, 1, "a"))
    error = target.refusal(lambda: target.rows("1234567890123456789"))
    assert isinstance(error, ConfigError)
    assert "1234567890123456789" in str(error)


# Catalogs


def with_conf(spark: SparkSession, conf: Mapping[str, str], name: str = "theirs") -> SparkSession:
    """Return a session as a user would have built it."""
    session = Sessions(spark).of(name)
    for key, value in conf.items():
        session.conf.set(key, value)
    return session


def test_catalog_of_the_session(tmp_path: Path, spark: SparkSession) -> None:
    sink = IcebergSink({"catalog": "named", "catalog.properties": {"type": "hadoop", "warehouse": str(tmp_path)}})
    with pytest.raises(
        PluginError, match=r'\.config\("spark.sql.catalog.named", "org.apache.iceberg.spark.SparkCatalog"\)'
    ):
        check_session(spark, [sink])
    clone = with_conf(spark, sink.session_conf())
    check_session(clone, [sink])
    sink.check(clone)
    target = Target(sink, clone)
    assert isinstance(target.refusal(target.rows), ConfigError)
    target.write(PEOPLE, put(1, 1, "a"))
    target.write(PEOPLE, put(2, 1, "A"), put(2, 2, "b"))
    target.write(f"{PEOPLE}, born int", put(3, 2, "B", 1886))
    assert target.rows() == [{"id": 1, "name": "A", "born": None}, {"id": 2, "name": "B", "born": 1886}]
    assert (tmp_path / target.name.replace(".", "/") / "metadata").is_dir()


@pytest.mark.nightly
def test_changes_of_other_writers_in_a_catalog_are_read(tmp_path: Path, spark: SparkSession) -> None:
    """Each session has its own catalog, which caches loaded tables for half a minute."""
    catalog = {"type": "hadoop", "warehouse": str(tmp_path)}
    sink = IcebergSink({"catalog": "shared", "catalog.properties": catalog})
    sessions = [with_conf(spark, sink.session_conf(), name) for name in ("ours", "others")]
    ours = Target(sink, sessions[0])
    others = Target(sink, sessions[1], name=ours.name, pipeline=ours.pipeline)
    ours.write(PEOPLE, put(1, 1, "a"))
    assert others.rows() == [{"id": 1, "name": "a"}]
    second = ours.write(f"{PEOPLE}, born int", put(2, 2, "b", 1889))
    rows = [{"id": 1, "name": "a", "born": None}, {"id": 2, "name": "b", "born": 1889}]
    assert others.rows() == rows
    assert others.rows(second.version) == rows
    others.batch = ours.batch  # the next batch after a restart
    assert others.write_again(f"{PEOPLE}, born int", put(2, 2, "b", 1889)).skipped
    others.write(PEOPLE, put(3, 1, "A"))
    assert [row["name"] for row in ours.rows()] == ["A", "b"]
    sessions[0].sql(f"DROP TABLE shared.{ours.name}")
    assert "there is no table" in str(others.refusal(others.rows))
    ours.write("id int, title string", put(4, 7, "made anew"))
    assert others.rows() == [{"id": 7, "title": "made anew"}]
    ours.write("id int, title string", put(5, 8, "more"))
    sessions[0].sql(f"DROP TABLE shared.{ours.name}")
    others.batch = ours.batch
    others.write("id int, title string", put(6, 9, "by the other"))
    assert ours.rows() == [{"id": 9, "title": "by the other"}]


def test_broken_catalog(spark: SparkSession) -> None:
    sink = IcebergSink({"catalog": "broken", "catalog.properties": {"type": "no such type", "credential": "s3cret"}})
    with pytest.raises(ConfigError, match="cannot use the session's catalog 'broken'") as caught:
        sink.check(with_conf(spark, sink.session_conf()))
    assert '.config("spark.sql.catalog.broken.type", "hadoop")' in str(caught.value)
    assert "s3cret" not in str(caught.value)


def test_spark_catalog_is_wrapped() -> None:
    wrapper = {"spark.sql.catalog.spark_catalog": "org.apache.iceberg.spark.SparkSessionCatalog"}
    assert IcebergSink(catalog="spark_catalog").session_conf() == wrapper


@pytest.mark.parametrize("options", [{}, {"warehouse": "a", "catalog": "b"}])
def test_warehouse_and_catalog_are_exclusive(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"set either `warehouse:` .a folder. or `catalog:`"):
        IcebergSink(options)


def test_every_column_that_iceberg_adds_is_reserved(spark: SparkSession) -> None:
    metadata = spark._jvm.org.apache.iceberg.MetadataColumns  # type: ignore[union-attr]
    fields = spark._jvm.java.lang.Class.forName(metadata._fqn).getFields()  # type: ignore[union-attr]
    names = {str(field.get(None).name()) for field in fields if field.getType().getSimpleName() == "NestedField"}
    assert {name for name in names if metadata.isMetadataColumn(name)} <= set(IcebergSink.reserved_columns)


def test_struct_fields_may_have_names_of_iceberg_columns(target: Target) -> None:
    schema = f"id int, s struct<{', '.join(f'{name}: string' for name in IcebergSink.reserved_columns)}>"
    values = tuple(IcebergSink.reserved_columns)
    target.write(schema, put(1, 1, values), put(1, 2, values))
    target.write(schema, put(2, 1, tuple(map(str.upper, values))), remove(2, 2, None))
    assert target.rows() == [{"id": 1, "s": {name: name.upper() for name in values}}]
