"""Options of Hudi's index that change between two runs, and buckets that another writer replaces."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.support.hudi import load_table_services
from tests.support.tiers import nightly_after

from headrace import ConfigError
from headrace.spark.sessions import Sessions
from headrace.testing.tables import Target, put, remove
from headrace_sinks.hudi import HudiSink
from headrace_sinks.hudi.hudi_index import Index
from headrace_sinks.hudi.hudi_timeline import open_table

pytestmark = [pytest.mark.spark, pytest.mark.one_spark]

TOWNS = "id int, city string, town string, turn int"
KEYS = 40
PARTITION, BUCKETS = "hoodie.datasource.write.partitionpath.field", "hoodie.bucket.index.num.buckets"
KIND, ENGINE, HASHED = "hoodie.index.type", "hoodie.index.bucket.engine", "hoodie.bucket.index.hash.field"
TYPE, METADATA = "table.type", "hoodie.metadata.enable"
IN_CITIES = {PARTITION: "city"}
GROWING = {ENGINE: "CONSISTENT_HASHING", TYPE: "MERGE_ON_READ"}
Options = Mapping[str, str]


class Towns:
    """Table whose options change from batch to batch."""

    def __init__(self, folder: Path, sessions: Sessions) -> None:
        self._folder = folder
        self.target = Target(HudiSink({"path": str(folder)}), sessions.of("one"), key=("id", "town"))
        self._turn = 0

    def write(self, options: Options) -> None:
        """Write new values for all rows, and delete one row more than before."""
        turn = self._turn + 1
        changes = [put(turn, number, f"c{number % 2}", "t", turn) for number in range(turn, KEYS)]
        self.set(options)
        self.target.write(TOWNS, *changes, *[remove(turn, number, None, "t", None) for number in range(turn)])
        self._turn = turn

    def set(self, options: Options) -> None:
        self.target.sink = HudiSink({"path": str(self._folder), **options})

    def assert_correct(self) -> None:
        found = [(row["id"], row["turn"]) for row in self.target.rows()]
        assert sorted(found) == [(number, self._turn) for number in range(self._turn, KEYS)]

    def refusal(self, options: Options) -> str:
        """Return the error of a batch with these options, and assert that the table is unchanged."""
        self.set(options)
        refusal = self.target.refusal(lambda: self.write(options))
        assert isinstance(refusal, ConfigError)
        self.assert_correct()
        return str(refusal)

    def check(self, options: Options) -> str:
        """Return the error of ``headrace check`` for the stored table."""
        self.set(options)
        with pytest.raises(ConfigError) as refused:
            self.target.sink.check_stored(self.target.session, self.target.table)
        return str(refused.value)


@pytest.fixture
def towns(tmp_path: Path, sessions: Sessions) -> Towns:
    return Towns(tmp_path, sessions)


@pytest.mark.parametrize(
    ("created", "edits"),
    nightly_after(
        1,
        [
            (
                {BUCKETS: "8"},
                [
                    ({BUCKETS: "16"}, "the rows are in 8 buckets, and the options look for them in 16 buckets"),
                    ({}, "the rows are in 8 buckets, and the options look for them in 4 buckets"),
                    (
                        {BUCKETS: "8", HASHED: "id"},
                        "the rows are in 8 buckets, and the options look for them in 8 buckets of id",
                    ),
                    (GROWING, "the rows are in 8 buckets, and the options look for them in buckets that grow"),
                    (IN_CITIES, "the table is partitioned by no column, and the option names city"),
                ],
            ),
            (GROWING, [({}, "the rows are in buckets that grow, and the options look for them in 4 buckets")]),
            (
                {KIND: "SIMPLE"},
                [({}, "the rows are in files of the index SIMPLE, and the options look for them in 4 buckets")],
            ),
            (
                IN_CITIES,
                [
                    ({}, "the table is partitioned by city, and the option names no column"),
                    ({PARTITION: "town"}, "the table is partitioned by city, and the option names town"),
                ],
            ),
        ],
    ),
    ids=["buckets", "growing", "no buckets", "partitions"],
)
def test_option_change_that_would_hide_rows_is_rejected(
    towns: Towns, created: Options, edits: list[tuple[Options, str]]
) -> None:
    towns.write(created)
    for edited, complaint in edits:
        message = towns.refusal(edited)
        assert complaint in message
        assert f"table {towns.target.name}, sink hudi, hoodie." in message
        assert "restore the previous value" in message
        assert towns.check(edited) == message
    towns.write(created)
    towns.assert_correct()


@pytest.mark.nightly
def test_index_of_another_pipeline_is_respected(towns: Towns) -> None:
    towns.write({BUCKETS: "4"})
    towns.target.pipeline, towns.target.batch = "another", -1
    assert "the rows are in 4 buckets" in towns.refusal({BUCKETS: "16"})


@pytest.mark.nightly
def test_other_index_invalidates_buckets(towns: Towns) -> None:
    towns.write({})
    towns.write({KIND: "SIMPLE"})
    towns.assert_correct()
    assert "the rows are in files of the index SIMPLE" in towns.refusal({})
    towns.write({KIND: "BLOOM"})
    towns.assert_correct()


@pytest.mark.parametrize(
    "steps",
    nightly_after(
        1,
        [
            [{TYPE: "MERGE_ON_READ"}, {TYPE: "COPY_ON_WRITE"}],
            [{TYPE: "COPY_ON_WRITE"}, {TYPE: "MERGE_ON_READ"}],
            [{}, {METADATA: "true"}, {}],
            [{**GROWING, BUCKETS: "4"}, {**GROWING, BUCKETS: "8"}],
        ],
    ),
    ids=["copy on write", "merge on read", "metadata", "growing"],
)
def test_harmless_option_changes_keep_rows_correct(towns: Towns, steps: list[Options]) -> None:
    for options in steps:
        towns.write(options)
        towns.assert_correct()
    table = open_table(towns.target.session, load_table_services(towns.target).path)
    assert str(table.getTableType()) == steps[0].get(TYPE, "MERGE_ON_READ")


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("edited", "complaint"),
    [
        (
            {"hoodie.table.ordering.fields": "turn"},
            "hoodie.table.ordering.fields: was '_headrace_position' and is now 'turn'",
        ),
        ({"hoodie.table.name": "mine"}, "hoodie.table.name: was 'kit_"),
    ],
)
def test_option_change_that_hudi_rejects_has_plain_error(towns: Towns, edited: Options, complaint: str) -> None:
    towns.write({})
    message = towns.refusal(edited)
    assert "the table was created with other options: " in message
    assert complaint in message
    assert "restore the previous values" in message


# Other writers


@pytest.mark.nightly
@pytest.mark.parametrize(("table_type", "buckets"), [("MERGE_ON_READ", "4"), ("COPY_ON_WRITE", "1")])
def test_index_simple_finds_rows_in_clustered_buckets(towns: Towns, table_type: str, buckets: str) -> None:
    created = {TYPE: table_type, BUCKETS: buckets}
    towns.write(created)
    towns.write(created)
    cluster_without_buckets(towns.target)
    message = towns.refusal(created)
    assert f"is not one of {buckets} buckets, and its rows would not be found: the table was clustered" in message
    assert "set `hoodie.index.type: SIMPLE`" in message
    assert towns.check(created) == message
    for _ in range(2):
        towns.write({**created, KIND: "SIMPLE"})
        towns.assert_correct()


def cluster_without_buckets(target: Target) -> None:
    """Cluster with Hudi's own client, without the options of buckets."""
    jvm: Any = target.session._jvm
    services, hudi = load_table_services(target), jvm.org.apache.hudi
    table = open_table(target.session, services.path)
    schema = str(hudi.common.table.TableSchemaResolver(table).getTableSchema().toString())
    options = {"hoodie.table.name": services.options["hoodie.table.name"], METADATA: "false"}
    options |= {"hoodie.clustering.async.enabled": "true", "hoodie.clustering.async.max.commits": "1"}
    options |= {"hoodie.clustering.plan.strategy.small.file.limit": "1000000000"}
    options |= {"hoodie.datasource.write.table.type": str(table.getTableType())}
    java, name = target.session.sparkContext._jsc, options["hoodie.table.name"]
    client = hudi.DataSourceUtils.createHoodieClient(java, schema, services.path, name, options)
    try:
        planned = client.scheduleClustering(hudi.common.util.Option.empty())
        client.cluster(planned.get(), True)
    finally:
        client.close()


@pytest.mark.nightly
def test_table_written_with_another_index_has_plain_error(towns: Towns) -> None:
    towns.write({})
    services, rows = load_table_services(towns.target), towns.target.frame(TOWNS, put(1, 1, "c1", "t", 1))
    write_options = {**services.options, **services.own_options, KIND: "SIMPLE", "hoodie.table.name": "theirs"}
    write_options |= {"hoodie.datasource.write.recordkey.field": "id,town"}
    other_target = Target(towns.target.sink, towns.target.session, towns.target.key, "kit.theirs")
    path = str(Path(services.path).with_name("theirs"))
    rows.withColumnRenamed("_headrace_deleted", "_hoodie_is_deleted").write.format("hudi").options(
        **write_options
    ).save(path)
    other_target.sink = HudiSink(
        {**towns.target.sink.config.options(), "path": str(towns._folder), "hoodie.table.name": "theirs"}
    )
    refusal = other_target.refusal(lambda: other_target.write(TOWNS, put(2, 1, "c1", "t", 2)))
    assert "is not one of 4 buckets, and its rows would not be found" in str(refusal)
    assert "with another index" in str(refusal)
    assert [row["turn"] for row in other_target.rows()] == [1]


def test_clustering_during_a_batch_has_plain_error() -> None:
    stack = "java.lang.NumberFormatException: For input string: ef1f02b8\n\tat org.apache.hudi.index.bucket.BucketIdentifier."
    error = HudiSink(path="lake").explain(RuntimeError(f"{stack}bucketIdFromFileId"))
    assert isinstance(error, ConfigError)
    assert "the table has files that are not buckets" in str(error)


def test_file_of_unknown_bucket_is_rejected() -> None:
    index = Index({BUCKETS: "4"})
    index.check_files(["00000000-8795-4a45-afe7-a0942c738b99", "00000003-1"], "shop.orders")
    for file_id in ("00000004-8795", "12345678-8795", "ef1f02b8-3e6b"):
        with pytest.raises(ConfigError, match=rf"table shop.orders.*file {file_id} is not one of 4 buckets"):
            index.check_files(["00000000-8795", file_id], "shop.orders")
