"""Options by which Hudi finds rows, edited between two runs, and files that somebody else puts in the place of buckets."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.support.hudi import services_of
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
    """A table whose options change from batch to batch."""

    def __init__(self, folder: Path, clones: Sessions) -> None:
        self._folder = folder
        self.target = Target(HudiSink({"path": str(folder)}), clones.of("one"), key=("id", "town"))
        self._turn = 0

    def write(self, options: Options) -> None:
        """Changes all rows, and removes one more than before."""
        turn = self._turn + 1
        changes = [put(turn, number, f"c{number % 2}", "t", turn) for number in range(turn, KEYS)]
        self.set(options)
        self.target.write(TOWNS, *changes, *[remove(turn, number, None, "t", None) for number in range(turn)])
        self._turn = turn

    def set(self, options: Options) -> None:
        self.target.sink = HudiSink({"path": str(self._folder), **options})

    def assert_right(self) -> None:
        found = [(row["id"], row["turn"]) for row in self.target.rows()]
        assert sorted(found) == [(number, self._turn) for number in range(self._turn, KEYS)]

    def refusal(self, options: Options) -> str:
        """What is said of a batch with these options; nothing is written."""
        self.set(options)
        refusal = self.target.refusal(lambda: self.write(options))
        assert isinstance(refusal, ConfigError)
        self.assert_right()
        return str(refusal)

    def check(self, options: Options) -> str:
        """What ``headrace check`` says of the table that is there."""
        self.set(options)
        with pytest.raises(ConfigError) as refused:
            self.target.sink.check_stored(self.target.session, self.target.table)
        return str(refused.value)


@pytest.fixture
def towns(tmp_path: Path, clones: Sessions) -> Towns:
    return Towns(tmp_path, clones)


@pytest.mark.parametrize(
    ("made", "edits"),
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
def test_an_edit_after_which_rows_would_not_be_found_is_refused(
    towns: Towns, made: Options, edits: list[tuple[Options, str]]
) -> None:
    towns.write(made)
    for edited, complaint in edits:
        said = towns.refusal(edited)
        assert complaint in said
        assert f"table {towns.target.name}, sink hudi, hoodie." in said
        assert "restore the previous value" in said
        assert towns.check(edited) == said
    towns.write(made)
    towns.assert_right()


@pytest.mark.nightly
def test_what_another_pipeline_wrote_counts(towns: Towns) -> None:
    towns.write({BUCKETS: "4"})
    towns.target.pipeline, towns.target.batch = "another", -1
    assert "the rows are in 4 buckets" in towns.refusal({BUCKETS: "16"})


@pytest.mark.nightly
def test_buckets_that_another_index_wrote_to_are_none_any_more(towns: Towns) -> None:
    towns.write({})
    towns.write({KIND: "SIMPLE"})
    towns.assert_right()
    assert "the rows are in files of the index SIMPLE" in towns.refusal({})
    towns.write({KIND: "BLOOM"})
    towns.assert_right()


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
def test_an_edit_that_is_of_new_tables_or_of_no_matter_leaves_the_rows_right(
    towns: Towns, steps: list[Options]
) -> None:
    for options in steps:
        towns.write(options)
        towns.assert_right()
    table = open_table(towns.target.session, services_of(towns.target).path)
    assert str(table.getTableType()) == steps[0].get(TYPE, "MERGE_ON_READ")


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("edited", "complaint"),
    [
        (
            {"hoodie.table.ordering.fields": "turn"},
            "hoodie.table.ordering.fields: '_headrace_position', and now 'turn'",
        ),
        ({"hoodie.table.name": "mine"}, "hoodie.table.name: 'kit_"),
    ],
)
def test_an_edit_that_hudi_refuses_is_told_in_a_sentence(towns: Towns, edited: Options, complaint: str) -> None:
    towns.write({})
    said = towns.refusal(edited)
    assert "the table was created with other options: " in said
    assert complaint in said
    assert "restore the previous values" in said


# Somebody else


@pytest.mark.nightly
@pytest.mark.parametrize(("table_type", "buckets"), [("MERGE_ON_READ", "4"), ("COPY_ON_WRITE", "1")])
def test_buckets_that_somebody_clustered_are_searched_for_rows_when_told_so(
    towns: Towns, table_type: str, buckets: str
) -> None:
    made = {TYPE: table_type, BUCKETS: buckets}
    towns.write(made)
    towns.write(made)
    cluster_as_a_stranger(towns.target)
    said = towns.refusal(made)
    assert f"is not one of {buckets} buckets, and its rows would not be found: the table was clustered" in said
    assert "set `hoodie.index.type: SIMPLE`" in said
    assert towns.check(made) == said
    for _ in range(2):
        towns.write({**made, KIND: "SIMPLE"})
        towns.assert_right()


def cluster_as_a_stranger(target: Target) -> None:
    """With Hudi's own client, which is not told of buckets."""
    jvm: Any = target.session._jvm
    services, hudi = services_of(target), jvm.org.apache.hudi
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
def test_a_table_that_somebody_wrote_with_another_index_is_told_in_a_sentence(towns: Towns) -> None:
    towns.write({})
    services, rows = services_of(towns.target), towns.target.frame(TOWNS, put(1, 1, "c1", "t", 1))
    written = {**services.options, **services.own_options, KIND: "SIMPLE", "hoodie.table.name": "theirs"}
    written |= {"hoodie.datasource.write.recordkey.field": "id,town"}
    theirs = Target(towns.target.sink, towns.target.session, towns.target.key, "kit.theirs")
    path = str(Path(services.path).with_name("theirs"))
    rows.withColumnRenamed("_headrace_deleted", "_hoodie_is_deleted").write.format("hudi").options(**written).save(path)
    theirs.sink = HudiSink(
        {**towns.target.sink.config.options(), "path": str(towns._folder), "hoodie.table.name": "theirs"}
    )
    refusal = theirs.refusal(lambda: theirs.write(TOWNS, put(2, 1, "c1", "t", 2)))
    assert "is not one of 4 buckets, and its rows would not be found" in str(refusal)
    assert "with another index" in str(refusal)
    assert [row["turn"] for row in theirs.rows()] == [1]


def test_files_that_somebody_clusters_while_a_batch_is_written_are_told_in_a_sentence() -> None:
    stack = "java.lang.NumberFormatException: For input string: ef1f02b8\n\tat org.apache.hudi.index.bucket.BucketIdentifier."
    error = HudiSink(path="lake").explain(RuntimeError(f"{stack}bucketIdFromFileId"))
    assert isinstance(error, ConfigError)
    assert "the table has files that are not buckets" in str(error)


def test_a_file_is_a_bucket_whose_number_there_is() -> None:
    index = Index({BUCKETS: "4"})
    index.check_files(["00000000-8795-4a45-afe7-a0942c738b99", "00000003-1"], "shop.orders")
    for stranger in ("00000004-8795", "12345678-8795", "ef1f02b8-3e6b"):
        with pytest.raises(ConfigError, match=rf"table shop.orders.*file {stranger} is not one of 4 buckets"):
            index.check_files(["00000000-8795", stranger], "shop.orders")
