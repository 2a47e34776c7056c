from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyspark
import pytest
from deltalake import write_deltalake
from tests.support.delta import DAY, folder_of, later, open_table, read_actions, read_rows
from tests.support.tiers import nightly_after

from headrace import ConfigError, DataError, RetriableError
from headrace.sdk.changes import POSITION
from headrace.sdk.sink import WriteResult
from headrace.spark.sessions import Sessions
from headrace.testing._internal.meantime import in_the_meantime
from headrace.testing.tables import Target, put, remove
from headrace_sinks.delta import DeltaSink
from headrace_sinks.delta.delta_handle import DeltaHandle
from headrace_sinks.delta.delta_partitions import find_unsupported_values

pytestmark = pytest.mark.spark

PEOPLE = "id int, name string"


@pytest.fixture
def target(tmp_path: Path, sessions: Sessions) -> Target:
    session = sessions.of("one")
    # A session of the user may have it.
    session.conf.set("spark.databricks.delta.schema.autoMerge.enabled", "true")
    return Target(DeltaSink(path=str(tmp_path)), session)


def make(folder: Path, sessions: Sessions, **options: Any) -> Target:
    return Target(DeltaSink({"path": str(folder), **options}), sessions.of("one"))


# Tables as another reader sees them


def test_delta_rs_reads_upserts_deletes_and_schema_changes(target: Target, tmp_path: Path) -> None:
    target.write("id int, size int", put(1, 1, 10), put(1, 2, 20), put(1, 3, 30))
    target.write("id int, size int, note string", put(2, 1, 2**20, "a"), remove(2, 2, None, None))
    assert read_rows(tmp_path, target) == [
        {"id": 1, "size": 2**20, "note": "a"},
        {"id": 3, "size": 30, "note": None},
    ]
    columns = [field.name for field in open_table(tmp_path, target).schema().fields]
    assert columns == ["id", "size", POSITION, "note"]
    vectors = [action["add"].get("deletionVector") for action in read_actions(tmp_path, target) if "add" in action]
    assert any(vectors), "the rows are marked as deleted in their file"


def test_tables_have_no_deletion_vectors_if_a_reader_does_not_read_them(tmp_path: Path, sessions: Sessions) -> None:
    table = make(tmp_path, sessions, readers=["spark", "polars"])
    (warning,) = table.sink.warnings()
    assert "polars refuses deletion vectors" in warning
    table.write(PEOPLE, put(1, 1, "a"), put(1, 2, "b"))
    table.write(PEOPLE, put(2, 1, "A"), remove(2, 2, None))
    assert "deletionVectors" not in (open_table(tmp_path, table).protocol().reader_features or [])
    assert read_rows(tmp_path, table) == [{"id": 1, "name": "A"}]


def test_table_with_deletion_vectors_is_set_aside_for_a_reader_that_refuses_them(
    target: Target, tmp_path: Path, sessions: Sessions
) -> None:
    target.write(PEOPLE, put(1, 1, "a"))
    other = Target(make(tmp_path, sessions, readers=["polars"]).sink, target.session, name=target.name)
    for work in (
        lambda: other.write(PEOPLE, put(2, 1, "A")),
        lambda: other.sink.check_stored(other.session, other.table),
    ):
        error = other.refusal(work)
        assert isinstance(error, ConfigError)
        assert "polars refuses deletion vectors" in str(error)
    assert target.rows() == [{"id": 1, "name": "a"}]


# The mark of the batch


def test_first_batch_continues_after_a_killed_one_with_random_names_of_folders(target: Target, tmp_path: Path) -> None:
    folder = folder_of(tmp_path, target)
    for name in "_delta_log", "ug":
        (folder / name).mkdir(parents=True)
    (folder / "ug" / "part-0.parquet").touch()
    target.write("id int, `a b` string", put(1, 1, "a"), mode="append")
    assert target.rows() == [{"id": 1, "a b": "a"}]


@pytest.mark.nightly
def test_rows_that_a_restore_removed_are_written_again(target: Target, tmp_path: Path) -> None:
    for number in range(2):
        target.write(PEOPLE, put(number, number, "a"), mode="append")
    open_table(tmp_path, target).restore(0)
    assert not target.write_again(PEOPLE, put(1, 1, "a"), mode="append").skipped
    assert target.write_again(PEOPLE, put(1, 1, "a"), mode="append").skipped
    assert [row["id"] for row in target.rows()] == [0, 1]


@pytest.mark.parametrize("mode", nightly_after(1, ["upsert", "append"]))
def test_transactions_name_their_batch_and_repeated_batch_is_skipped(target: Target, tmp_path: Path, mode: Any) -> None:
    target.write(PEOPLE, put(1, 1, "a"), mode=mode)
    other = Target(target.sink, target.session, name=target.name)
    target.write(PEOPLE, put(2, 2, "b"), mode=mode)
    other.write(PEOPLE, put(3, 3, "c"), mode=mode)
    again = target.write_again(PEOPLE, put(2, 2, "b"), mode=mode)
    assert again == WriteResult(version="2", skipped=True)
    commits = [action["commitInfo"] for action in read_actions(tmp_path, target) if "commitInfo" in action]
    marks = [f"{target.pipeline}:0:1", f"{target.pipeline}:1:1", f"{other.pipeline}:0:1"]
    assert [commit["userMetadata"] for commit in commits] == marks
    ids = [action["txn"]["appId"] for action in read_actions(tmp_path, target) if "txn" in action]
    assert ids == [f"headrace:{name}" for name in (target.pipeline, target.pipeline, other.pipeline)]


@pytest.mark.nightly
def test_metrics_of_the_commit_are_reported(target: Target) -> None:
    first = target.write(PEOPLE, put(1, 1, "a"), put(5, 2, "b"), remove(1, 9, None))
    assert (first.upserted, first.version) == (2, "0")
    assert first.bytes
    second = target.write(PEOPLE, put(2, 1, "A"), put(4, 2, "late"), put(1, 3, "c"), remove(1, 8, None))
    assert (second.upserted, second.version) == (2, "1")
    assert second.bytes
    third = target.write("id int, name string, born int", put(3, 2, "later", 1))
    assert (third.upserted, list(third.schema_changes)) == (0, ["new column born (int)"])


# Other writers


@pytest.mark.nightly
def test_concurrent_commit_is_retriable(target: Target, sessions: Sessions) -> None:
    target.write(PEOPLE, put(1, 1, "a"))
    other = Target(target.sink, sessions.of("other"), name=target.name)
    with in_the_meantime(lambda: other.write(PEOPLE, put(2, 2, "b"))) as interleave:
        error = target.refusal(lambda: target.apply(interleave(target.frame(PEOPLE, put(3, 1, "A")))))
    assert error is None or isinstance(error, RetriableError)
    target.write_again(PEOPLE, put(3, 1, "A")) if error is None else target.write(PEOPLE, put(3, 1, "A"))
    assert target.rows() == [{"id": 1, "name": "A"}, {"id": 2, "name": "b"}]


def test_table_in_the_folder_of_another_table_is_rejected(target: Target, sessions: Sessions, tmp_path: Path) -> None:
    target.write(PEOPLE, put(1, 1, "a"))
    inner = Target(DeltaSink(path=str(tmp_path)), target.session, name=f"{target.name}.old")
    error = inner.refusal(lambda: inner.write(PEOPLE, put(1, 1, "a")))
    assert isinstance(error, ConfigError)
    assert f"its folder is in that of the table at file:{folder_of(tmp_path, target)}, whose VACUUM" in str(error)
    outer = Target(DeltaSink(path=str(tmp_path)), target.session, name="kit")
    error = outer.refusal(lambda: outer.write(PEOPLE, put(1, 1, "a")))
    assert isinstance(error, ConfigError)
    assert f"its folder has that of the table at file:{folder_of(tmp_path, target)}, whose files its VACUUM" in str(
        error
    )
    assert not folder_of(tmp_path, outer).joinpath("_delta_log").exists()


def test_folder_with_files_of_another_program_is_rejected(target: Target, tmp_path: Path) -> None:
    folder = folder_of(tmp_path, target)
    target.session.range(3).write.parquet(str(folder))
    error = target.refusal(lambda: target.write(PEOPLE, put(1, 1, "a")))
    assert isinstance(error, ConfigError)
    assert "has files of another program, for example '_SUCCESS'" in str(error)
    assert not (folder / "_delta_log").exists()
    for file in folder.glob("*_SUCCESS*"):
        file.unlink()
    error = target.refusal(lambda: target.write(PEOPLE, put(1, 1, "a")))
    assert "has files of another program, for example " in str(error)


def test_first_batch_continues_after_a_killed_one(target: Target, tmp_path: Path) -> None:
    from pyspark.sql import functions as F

    rows = target.frame(PEOPLE, *(put(1, number, "a") for number in range(40)))
    failing = rows.repartition(4, "id").withColumn("id", F.expr("if(id = 30, raise_error('killed'), id)"))
    with pytest.raises(Exception, match="killed"):
        target.apply(failing)
    assert [path.name for path in folder_of(tmp_path, target).iterdir()]
    target.apply(rows)
    assert len(target.rows()) == 40


def test_delta_table_of_another_program_is_continued(target: Target, tmp_path: Path) -> None:
    folder = str(folder_of(tmp_path, target))
    write_deltalake(folder, pa.table({"id": pa.array([1, 2], pa.int32()), "city": ["x", "y"]}))
    target.write(PEOPLE, put(1, 1, "a"), put(1, 3, "c"))
    assert read_rows(tmp_path, target) == [
        {"id": 1, "city": None, "name": "a"},
        {"id": 2, "city": "y", "name": None},
        {"id": 3, "city": None, "name": "c"},
    ]
    steps = target.sink.plan_maintenance(target.session, target.table, later(30 * DAY))
    assert "remove-orphans" not in [step.name for step in steps]
    error = target.refusal(lambda: target.write("id int, city int", put(2, 1, 5)))
    assert isinstance(error, DataError)
    assert "city" in str(error)


# Partitions


@pytest.mark.nightly
def test_rows_move_between_partitions(tmp_path: Path, sessions: Sessions) -> None:
    table = make(tmp_path, sessions, **{"partition.by": {"other.*": ["born"], "kit.*": ["city"]}})
    schema = "id int, city string, name string"
    table.write(schema, put(1, 1, "x", "a"), put(1, 2, "x", "b"), put(1, 3, None, "c"), put(9, 4, "y/z", "d"))
    table.write(schema, put(2, 1, "y/z", "A"), remove(2, 2, None, None), put(2, 3, "y/z", "C"), put(8, 4, "x", "late"))
    expected = [(1, "y/z", "A"), (3, "y/z", "C"), (4, "y/z", "d")]
    assert [(row["id"], row["city"], row["name"]) for row in table.rows()] == expected
    assert [(row["id"], row["city"], row["name"]) for row in read_rows(tmp_path, table)] == expected
    assert open_table(tmp_path, table).metadata().partition_columns == ["city"]


def test_partition_values_that_a_table_cannot_hold(tmp_path: Path, sessions: Sessions) -> None:
    table = make(tmp_path, sessions, **{"partition.by": ["city"]})
    values = ["", "x" * 250, "x" * 251, ":" * 83, ":" * 84, "ž" * 125, "ž" * 126, None]
    values += ["__HIVE_DEFAULT_PARTITION__", "a\0b"]
    rows = table.frame("id int, city string", *[put(1, number, value) for number, value in enumerate(values)])
    condition = table.sink.find_unsupported(table.session, table.table, "upsert", rows.schema)
    assert condition is not None
    found = {row["id"] for row in rows.where(condition).collect()}
    assert found == {0, 2, 4, 6, 8, 9}
    mapped = find_unsupported_values(["City"], rows.schema, has_folders=False, has_limit=True)
    assert mapped is not None
    assert {row["id"] for row in rows.where(mapped).collect()} == {0, 8}
    table.apply(rows.where(~condition))
    assert [row["city"] for row in table.rows()] == [values[number] for number in (1, 3, 5, 7)]


# Columns


@pytest.mark.nightly
def test_new_table_has_mapped_columns_if_a_name_has_a_space(tmp_path: Path, sessions: Sessions) -> None:
    table = make(tmp_path, sessions, readers=["spark", "delta-rs"])
    table.write("id int, s struct<`a b`: int>", put(1, 1, (1,)), put(1, 2, (2,)))
    table.write("id int, s struct<`a b`: int>, `c,d` int", put(2, 1, (3,), 4), remove(2, 2, None, None))
    assert table.rows() == [{"id": 1, "s": {"a b": 3}, "c,d": 4}]
    assert read_rows(tmp_path, table) == table.rows()


@pytest.mark.nightly
def test_table_without_mapped_columns_refuses_a_new_name_with_a_space(tmp_path: Path, sessions: Sessions) -> None:
    table = make(tmp_path, sessions)
    table.write(PEOPLE, put(1, 1, "a"))
    rows = "id int, name string, s struct<`a b`: int>", put(2, 1, "A", (1,))
    for work in (
        lambda: table.write(*rows),
        lambda: table.sink.check_columns(table.session, table.table, ["id", "a b"]),
    ):
        error = table.refusal(work)
        assert isinstance(error, DataError)
        assert "Delta does not allow the column name 'a b'" in str(error)
        assert "set the table property `delta.columnMapping.mode` to `name`" in str(error)
    handle = DeltaHandle.load(table.session, str(folder_of(tmp_path, table)))
    assert handle is not None
    handle.set_properties({"delta.columnMapping.mode": "name"})
    table.write(*rows)
    assert table.rows() == [{"id": 1, "name": "A", "s": {"a b": 1}}]


def test_new_table_refuses_a_name_with_a_space_for_a_reader_of_other_names(tmp_path: Path, sessions: Sessions) -> None:
    table = make(tmp_path, sessions, readers=["spark", "polars"])
    error = table.refusal(lambda: table.write("id int, s struct<`a b`: int>", put(1, 1, (1,))))
    assert isinstance(error, DataError)
    assert "remove the reader from `readers`, because it is not known whether polars can read mapped columns" in str(
        error
    )
    assert not folder_of(tmp_path, table).exists()


@pytest.mark.nightly
def test_types_are_widened_on_spark_4_unless_a_reader_does_not_support_it(tmp_path: Path, sessions: Sessions) -> None:
    narrow = "id int, a smallint, b float, c decimal(5,2), s struct<n: int>"
    wide = "id int, a bigint, b double, c decimal(9,4), s struct<n: bigint>"
    rows = put(1, 1, 1, 0.5, None, (1,)), put(2, 2, 2**40, 0.1, None, (2**40,))
    is_spark_3 = pyspark.__version__.startswith("3.")
    for readers, reason in (
        ([], "Delta for Spark 3 does not widen types"),
        (["athena"], "not known whether athena can read"),
    ):
        table = make(tmp_path, sessions, readers=readers)
        table.write(narrow, rows[0])
        error = table.refusal(partial(table.write, wide, rows[1]))
        if readers or is_spark_3:
            assert isinstance(error, DataError)
            assert ("Delta for Spark 3 does not widen types" if is_spark_3 else reason) in str(error)
            assert table.rows() == [{"id": 1, "a": 1, "b": 0.5, "c": None, "s": {"n": 1}}]
        else:
            kinds = {"id": "int", "a": "bigint", "b": "double", "c": "decimal(9,4)", "s": "struct<n:bigint>"}
            assert dict(table.read().dtypes) == kinds
            assert [(row["a"], row["b"], row["s"]["n"]) for row in table.rows()] == [(1, 0.5, 1), (2**40, 0.1, 2**40)]


@pytest.mark.nightly
def test_local_timestamps_are_added_to_an_existing_table(target: Target) -> None:
    from pyspark.sql import functions as F

    target.write(PEOPLE, put(1, 1, "a"))
    moment = F.lit("2024-02-29 23:59:59.123456").cast("timestamp_ntz")
    target.apply(target.frame(PEOPLE, put(2, 2, "b")).withColumn("seen", moment))
    assert [str(row["seen"]) for row in target.rows()] == ["None", "2024-02-29 23:59:59.123456"]


def test_invalid_table_property_is_a_config_error(tmp_path: Path, sessions: Sessions) -> None:
    table = make(tmp_path, sessions, **{"delta.noSuchProperty": "1"})
    error = table.refusal(lambda: table.sink.check(table.session))
    assert isinstance(error, ConfigError)
    assert "delta.noSuchProperty" in str(error)


def test_version_after_the_last_commit_is_the_newest(target: Target) -> None:
    target.write(PEOPLE, put(1, 1, "a"))
    assert target.rows("2999-01-01 00:00:00") == [{"id": 1, "name": "a"}]
    assert isinstance(target.refusal(lambda: target.rows("7")), ConfigError)
