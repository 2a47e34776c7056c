from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import date
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.support import pipelines
from tests.support.bronze import Bronze
from tests.support.kit import ICEBERG_CASES, ONE_SINK_CASES, skip_type_independent_tests
from tests.support.tiers import nightly_after, nightly_tests

from headrace import ConfigError, DataError, RetriableError
from headrace.sdk import MaintenancePolicy, NoSuchTableError
from headrace.sdk.sink import Batch, Table, WriteResult
from headrace.spark.sessions import Sessions
from headrace.spark.storage import Folder
from headrace.testing.sinks import SinkConformance
from headrace.testing.tables import Target, put, remove
from headrace_sinks.hudi import HudiSink, hudi_timeline

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

PEOPLE = "id int, name string"
TYPES = ("MERGE_ON_READ", "COPY_ON_WRITE")


@pytest.fixture(params=nightly_after(1, TYPES))
def table_type(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def target(folder: Path, sessions: Sessions, **options: Any) -> Target:
    return Target(HudiSink({"path": str(folder), **options}), sessions.of("one"))


def properties(folder: Path, target: Target) -> dict[str, str]:
    """Return the contents of a table's hoodie.properties."""
    text = (folder / target.name.replace(".", "/") / ".hoodie" / "hoodie.properties").read_text()
    return dict(line.split("=", 1) for line in text.splitlines() if not line.startswith("#"))


def timeline(folder: Path, target: Target) -> set[str]:
    return {file.name for file in (folder / target.name.replace(".", "/") / ".hoodie" / "timeline").iterdir()}


@pytest.mark.nightly
def test_writes_print_nothing(tmp_path: Path, sessions: Sessions, capfd: pytest.CaptureFixture[str]) -> None:
    table = target(tmp_path, sessions)
    table.write(PEOPLE, put(1, 1, "a"))
    table.write(PEOPLE, put(2, 1, "A"))
    table.rows()
    assert capfd.readouterr().out == ""


@nightly_tests(*ONE_SINK_CASES, *ICEBERG_CASES)
class TestMergeOnRead(SinkConformance):
    plugin_class = HudiSink
    faults = 4

    def config(self, folder: Path) -> Mapping[str, Any]:
        return {"path": str(folder)}


@pytest.mark.nightly
@skip_type_independent_tests
class TestCopyOnWrite(SinkConformance):
    plugin_class = HudiSink
    faults = 0  # the write steps are the same

    def config(self, folder: Path) -> Mapping[str, Any]:
        return {"path": str(folder), "table.type": "COPY_ON_WRITE"}


# The mark of the batch


def test_commits_name_their_batch_and_repeated_batch_is_skipped(tmp_path: Path, sessions: Sessions) -> None:
    # Compaction commits after every batch, and its commits have no mark.
    table = target(tmp_path, sessions, **{"hoodie.compact.inline.max.delta.commits": 1})
    path = f"{tmp_path}/{table.name.replace('.', '/')}"
    other = Target(table.sink, table.session, name=table.name)
    table.write(PEOPLE, put(1, 1, "a"))
    second = table.write(PEOPLE, put(2, 1, "A"), put(2, 2, "b"))
    other.write(PEOPLE, put(3, 3, "c"))
    commits = hudi_timeline.NewestCommits(hudi_timeline.open_table(table.session, path))
    last = hudi_timeline.find_last_commit(commits, Batch(table.pipeline, 0, "upsert"))
    assert last is not None
    assert (last.mark, last.instant) == (f"{table.pipeline}:1:1", second.version)
    assert table.write_again(PEOPLE, put(9, 9, "not read")) == WriteResult(version=second.version, skipped=True)
    assert [row["name"] for row in table.rows()] == ["A", "b", "c"]
    assert hudi_timeline.find_last_commit(commits, Batch("no pipeline", 0, "upsert")) is None


def test_commit_before_existing_instants_is_rejected(tmp_path: Path, sessions: Sessions) -> None:
    """Hudi would complete the commit, and its rows would be lost."""
    table = target(tmp_path, sessions, **{"table.type": "COPY_ON_WRITE"})
    table.write(PEOPLE, put(1, 1, "a"))
    path = tmp_path / table.name.replace(".", "/")
    foreign = path / ".hoodie/timeline/20990101000000000.commit.requested"
    foreign.touch()  # by a process with another clock
    problem = "newest instant, 20990101000000000, is [0-9]+ days, .* later than the clock"
    with pytest.raises(RetriableError, match=problem) as rejected:
        table.write(PEOPLE, put(2, 1, "b"))
    assert str(path) in str(rejected.value.where)
    with pytest.raises(RetriableError, match=problem):
        next(
            iter(table.sink.plan_maintenance(table.session, table.table, MaintenancePolicy(history_seconds=0, files=1)))
        )
    foreign.unlink()
    table.write(PEOPLE, put(2, 1, "b"))
    assert [row["name"] for row in table.rows()] == ["b"]


# Tables


def test_new_tables_suit_small_commits(tmp_path: Path, sessions: Sessions, table_type: str) -> None:
    table = target(tmp_path, sessions, **{"table.type": table_type})
    table.write(PEOPLE, *[put(1, number, "a") for number in range(50)])
    table.write(PEOPLE, *[put(2, number, "b") for number in range(50)])
    folder = tmp_path / table.name.replace(".", "/")
    buckets = {file.name[:8] for file in folder.glob("*.parquet")}
    assert buckets == {"00000000", "00000001", "00000002", "00000003"}
    assert not (folder / ".hoodie" / "metadata").exists()
    found = properties(tmp_path, table)
    assert found["hoodie.table.type"] == table_type
    assert found["hoodie.table.recordkey.fields"] == "id"
    assert found["hoodie.table.ordering.fields"] == "_headrace_position"


@pytest.mark.nightly
def test_hudi_options_override_defaults(tmp_path: Path, sessions: Sessions) -> None:
    options = {"hoodie.bucket.index.num.buckets": 1, "hoodie.metadata.enable": True, "hoodie.table.name": "mine"}
    options["hoodie.datasource.write.partitionpath.field"] = ""  # explicitly not partitioned
    table = target(tmp_path, sessions, **options)
    table.write(PEOPLE, *[put(1, number, "a") for number in range(20)])
    table.write(PEOPLE, put(2, 1, "b"))
    folder = tmp_path / table.name.replace(".", "/")
    assert {file.name[:8] for file in folder.glob("*.parquet")} == {"00000000"}
    assert (folder / ".hoodie" / "metadata").is_dir()
    assert properties(tmp_path, table)["hoodie.table.name"] == "mine"


@pytest.mark.nightly
def test_rows_stay_correct_after_log_compaction(tmp_path: Path, sessions: Sessions) -> None:
    table = target(tmp_path, sessions, **{"hoodie.compact.inline.max.delta.commits": 1})
    schema = "id int, tags array<string>, born date"
    table.write(schema, put(5, 1, ["a", None], None), put(1, 2, [None], None), put(1, 3, [], None))
    table.write(schema, put(4, 1, ["late"], None), remove(2, 2, None, None), put(2, 4, None, None))
    table.write(schema, put(3, 1, ["later"], None), remove(0, 3, None, None), put(3, 4, ["x", None], None))
    assert [(row["id"], row["tags"]) for row in table.rows()] == [(1, ["a", None]), (3, []), (4, ["x", None])]
    timeline = tmp_path / table.name.replace(".", "/") / ".hoodie" / "timeline"
    assert list(timeline.glob("*.compaction.requested"))


def test_columns_are_widened(tmp_path: Path, sessions: Sessions, table_type: str) -> None:
    table = target(tmp_path, sessions, **{"table.type": table_type})
    table.write("id int, a int, b float, c decimal(5,2)", put(1, 1, 1, 0.5, None), put(1, 2, 2, 0.5, None))
    table.write("id int, a bigint, b double, c decimal(9,2)", put(2, 2, 2**40, 0.1, None))
    table.write("id int, a smallint, b float, c decimal(5,2)", put(3, 3, 7, 0.5, None))
    assert dict(table.read().dtypes) == {"id": "int", "a": "bigint", "b": "double", "c": "decimal(9,2)"}
    assert [(row["a"], row["b"]) for row in table.rows()] == [(1, 0.5), (2**40, 0.1), (7, 0.5)]


#: Stored type, incoming type, and a value of each.
CONTRADICTIONS = (
    ("string", "binary", "t", b"\x00\xff"),
    ("binary", "string", b"\x00\xff", "t"),
    ("bigint", "float", 2**53 + 1, 0.5),
    ("double", "bigint", 0.5, 2**53 + 1),
    ("int", "string", 7, "t"),
    ("string", "int", "t", 7),
    ("string", "date", "t", date(2020, 1, 1)),
    ("decimal(20,2)", "double", Decimal("1.25"), 0.125),
    ("decimal(20,2)", "string", Decimal("1.25"), "t"),
    ("array<int>", "array<bigint>", [1], [2**40]),
    ("struct<a: int>", "struct<a: string>", (1,), ("t",)),
)


def test_incompatible_types_are_rejected_and_rows_stay(tmp_path: Path, sessions: Sessions) -> None:
    table = target(tmp_path, sessions)
    columns = [f"c{number}" for number in range(len(CONTRADICTIONS))]
    stored = ", ".join(f"{name} {kind}" for name, (kind, *_) in zip(columns, CONTRADICTIONS, strict=True))
    old = [value for *_, value, _ in CONTRADICTIONS]
    table.write(f"id int, {stored}", put(1, 1, *old), put(1, 2, *old))
    before, commits = table.rows(), timeline(tmp_path, table)
    for name, (kind, incoming, _, new) in zip(columns, CONTRADICTIONS, strict=True):
        error = table.refusal(partial(table.write, f"id int, {name} {incoming}", put(2, 1, new), put(2, 3, new)))
        assert isinstance(error, DataError)
        assert f"column '{name}{'.element' * ('array' in kind)}{'.a' * ('struct' in kind)}' has type" in str(error)
        assert timeline(tmp_path, table) == commits
    assert table.rows() == before


def test_integers_in_double_columns_and_decimals_with_larger_scale(
    tmp_path: Path, sessions: Sessions, table_type: str
) -> None:
    table = target(tmp_path, sessions, **{"table.type": table_type})
    table.write("id int, a int, b double, c decimal(5,2)", put(1, 1, 16777217, 0.5, Decimal("1.25")))
    table.write("id int, a double, b int, c decimal(7,4)", put(2, 2, 0.5, 16777217, Decimal("1.2345")))
    assert [tuple(row.values()) for row in table.rows()] == [
        (1, 16777217.0, 0.5, Decimal("1.2500")),
        (2, 0.5, 16777217.0, Decimal("1.2345")),
    ]


# Partitions

BY_COUNTRY = {"hoodie.datasource.write.partitionpath.field": "nationality"}


@pytest.mark.parametrize("index", ["BLOOM", "SIMPLE", "BUCKET", "RECORD_LEVEL_INDEX"])
def test_partition_local_index_is_rejected(index: str) -> None:
    sink = HudiSink({"path": "lake", "hoodie.index.type": index, **BY_COUNTRY})
    with pytest.raises(ConfigError) as refused:
        sink.check_table(Table("moma.artists", ("id",)), "upsert")
    assert f"moma.artists, sink hudi, hoodie.index.type: the index {index} searches only the partition" in str(
        refused.value
    )
    sink.check_table(Table("moma.artists", ("id", "nationality")), "upsert")
    sink.check_table(Table("moma.artists", ("id",)), "append")
    HudiSink({"path": "lake", "hoodie.index.type": index}).check_table(Table("moma.artists", ("id",)), "upsert")


def test_partition_local_index_fails_check_and_run(tmp_path: Path, spark: SparkSession) -> None:
    bronze = Bronze(tmp_path / "bronze")
    artists = bronze.topic(pipelines.TOPIC, key="artist_id", columns=pipelines.COLUMNS, full=False)
    artists.insert({"artist_id": 1, "name": "Arp", "nationality": "German"})
    bronze.flush()
    block = pipelines.sink_block("hudi", tmp_path, **{"hoodie.index.type": "BLOOM"}, **BY_COUNTRY)
    pipeline = pipelines.pipeline(tmp_path, sinks=[block])
    assert ["the index BLOOM searches" in item.found for item in pipeline.check(spark) if item.error] == [True]
    with pytest.raises(ConfigError, match="the index BLOOM searches"):
        pipeline.run(spark)
    assert not (tmp_path / "lake").exists()


@pytest.mark.nightly
@pytest.mark.parametrize("index", [None, "GLOBAL_SIMPLE", "GLOBAL_BLOOM", "RECORD_INDEX"])
def test_input_is_read_once_with_every_index(tmp_path: Path, sessions: Sessions, index: str | None) -> None:
    from pyspark.sql import functions as F

    options = {"hoodie.index.type": index, "hoodie.datasource.write.partitionpath.field": "city"} if index else {}
    if index == "RECORD_INDEX":
        options |= {"hoodie.metadata.enable": "true", "hoodie.metadata.record.index.enable": "true"}
    table, count = target(tmp_path, sessions, **options), sessions.spark.sparkContext.accumulator(0)

    def count_row(value: str) -> str:
        count.add(1)
        return value

    for batch in range(3):
        rows = table.frame("id int, city string", *[put(batch, number, f"town {batch}") for number in range(6)])
        table.apply(rows.withColumn("city", F.udf(count_row)("city")))
        assert count.value == 6 * (batch + 1)
    assert {row["city"] for row in table.rows()} == {"town 2"}


@pytest.mark.nightly
@pytest.mark.parametrize("index", ["GLOBAL_BLOOM", "RECORD_INDEX"])
def test_global_index_moves_and_deletes_rows_across_partitions(tmp_path: Path, sessions: Sessions, index: str) -> None:
    options = {"hoodie.index.type": index, "hoodie.datasource.write.partitionpath.field": "city"}
    if index == "RECORD_INDEX":
        options |= {"hoodie.metadata.enable": "true", "hoodie.metadata.record.index.enable": "true"}
    table = target(tmp_path, sessions, **options)
    schema = "id int, city string"
    table.write(schema, *[put(1, number, "Praha") for number in (1, 2, 3)])
    table.write(schema, put(2, 1, "Brno"), remove(2, 2, None))
    assert table.rows() == [{"id": 1, "city": "Brno"}, {"id": 3, "city": "Praha"}]
    assert [row["id"] for row in table.read().where("city = 'Brno'").collect()] == [1]


@pytest.mark.nightly
def test_bucket_index_works_with_partitions_by_key(tmp_path: Path, sessions: Sessions) -> None:
    options = {"hoodie.index.type": "BUCKET", "hoodie.datasource.write.partitionpath.field": "city"}
    table = replace(target(tmp_path, sessions, **options), key=("id", "city"))
    schema = "id int, city string, name string"
    table.write(schema, put(1, 1, "Praha", "a"), put(1, 2, "Brno", "b"), put(1, 1, "Brno", "c"))
    table.write(schema, put(2, 1, "Praha", "A"), remove(2, 1, "Brno", None))
    assert [row["name"] for row in table.rows()] == ["A", "b"]


# Errors


@pytest.mark.parametrize("has_file", [False, True], ids=["no file", "empty file"])
def test_table_is_created_again_after_a_killed_creation(tmp_path: Path, sessions: Sessions, has_file: bool) -> None:
    table = target(tmp_path, sessions)
    metadata = tmp_path / table.name.replace(".", "/") / ".hoodie"
    (metadata / "timeline").mkdir(parents=True)
    if has_file:
        (metadata / "hoodie.properties").touch()
    table.sink.check_stored(table.session, table.table)
    assert isinstance(table.refusal(table.rows), ConfigError)
    table.write(PEOPLE, put(1, 1, "a"))
    assert table.rows() == [{"id": 1, "name": "a"}]


def test_table_is_found_with_one_request(tmp_path: Path, sessions: Sessions, monkeypatch: pytest.MonkeyPatch) -> None:
    table, requests = target(tmp_path, sessions), list[str]()
    table.write(PEOPLE, put(1, 1, "a"))

    def record(call: Callable[..., Any]) -> Callable[..., Any]:
        def recorded(*given: Any) -> Any:
            requests.append(call.__name__)
            return call(*given)

        return recorded

    for name in ("exists", "size", "names", "list_files"):
        monkeypatch.setattr(Folder, name, record(getattr(Folder, name)))
    assert hudi_timeline.has_table(table.session, f"{tmp_path}/{table.name.replace('.', '/')}")
    assert requests == ["size"]


def test_table_that_lost_its_properties_is_rejected(tmp_path: Path, sessions: Sessions) -> None:
    table = target(tmp_path, sessions)
    metadata = tmp_path / table.name.replace(".", "/") / ".hoodie"
    (metadata / "timeline").mkdir(parents=True)
    instant, backup = metadata / "timeline/20260131120000000_20260131120001000.deltacommit", "hoodie.properties.backup"
    instant.touch()
    for work in (table.rows, lambda: table.write(PEOPLE, put(1, 1, "a"))):
        error = table.refusal(work)
        instant.unlink(missing_ok=True)
        (metadata / "hoodie.properties").touch()
        (metadata / backup).write_text("hoodie.table.name=people")
        assert isinstance(error, ConfigError)
        assert not isinstance(error, NoSuchTableError), "it would count as a new table"
        assert "the table has commits, but its file hoodie.properties is missing or empty" in str(error)
        assert str(metadata) in str(error)


def test_column_name_that_avro_does_not_allow(tmp_path: Path, sessions: Sessions) -> None:
    table = target(tmp_path, sessions)
    error = table.refusal(lambda: table.write("id int, s struct<`a b`: int>", put(1, 1, (1,))))
    assert isinstance(error, DataError)
    assert "does not allow the column name 'a b'" in str(error)
    assert not (tmp_path / "kit").exists()


def test_empty_string_is_a_key(tmp_path: Path, sessions: Sessions) -> None:
    table = target(tmp_path, sessions)
    table.write("id string, name string", put(1, "", "a"), put(2, "x", "b"))
    table.write("id string, name string", put(3, "", "c"))
    assert sorted((row["id"], row["name"]) for row in table.rows()) == [("", "c"), ("x", "b")]


@pytest.mark.parametrize("name", ["HoodieWriteConflictException", "HoodieLockException"])
def test_conflict_with_another_writer_is_retriable(name: str) -> None:
    error = HudiSink(path="lake").explain(RuntimeError(f"org.apache.hudi.exception.{name}: Cannot resolve conflicts"))
    assert isinstance(error, RetriableError)
