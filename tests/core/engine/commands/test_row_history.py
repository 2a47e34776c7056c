"""History of one row: from versions of a table, and from a table with a history."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.bronze import Bronze, Topic
from tests.support.memory_sink import MemorySink
from tests.support.pipelines import COLUMNS, TABLE, TABLE_SINKS, TOPIC, pipeline, sink_block
from tests.support.tiers import nightly_after

from headrace import ConfigError, Pipeline
from headrace.engine.commands.row_history import RowHistory, choose_versions
from headrace.engine.commands.row_key import match_key, type_key
from headrace.sdk.sink import TableVersion
from headrace_sources.transports.files import FilesSource
from headrace_transforms.unwrap import Unwrap

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.one_spark

VERSIONS = [TableVersion(f"v{number}", number * 1000, number == 1) for number in range(1, 5)]
ARP, RAY = (
    {"artist_id": 1, "name": "Arp", "nationality": "French"},
    {"artist_id": 2, "name": "Ray", "nationality": None},
)
HANS = {**ARP, "name": "Hans Arp"}


def list_times(text: str) -> int | None:
    return {"at 2.5": 2500, "at 0": 0, "at 9": 9000}.get(text)


@pytest.mark.parametrize(
    ("since", "until", "expected"),
    [
        (None, None, "v1 v2 v3 v4"),
        ("v2", None, "v2 v3 v4"),
        ("at 2.5", "v3", "v2 v3"),
        ("at 0", "at 2.5", "v1 v2"),
        ("at 9", None, "v4"),
        ("v3", "v3", "v3"),
    ],
)
def test_since_and_until_choose_versions(since: str | None, until: str | None, expected: str) -> None:
    chosen = choose_versions(VERSIONS, since, until, list_times)
    assert [version.version for version in chosen] == expected.split()


@pytest.mark.parametrize(
    ("since", "until", "message"),
    [
        ("v9", None, "'v9' is neither a readable version nor a timestamp; the oldest readable version is v1"),
        (None, "123", "'123' is neither a readable version nor a timestamp"),
        (None, "at 0", "no readable version lies between 'v1' and 'at 0'"),
        ("v3", "v2", "no readable version lies between 'v3' and 'v2'"),
    ],
)
def test_unknown_versions_are_rejected(since: str | None, until: str | None, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        choose_versions(VERSIONS, since, until, list_times)


def apply_changes(job: Pipeline, spark: SparkSession, folder: Path) -> None:
    """Apply inserts, an update, a delete and an insert of the row 1, each in a batch of its own, next to changes of the row 2."""
    bronze = Bronze(folder / "bronze")
    artists = bronze.topic(TOPIC, key="artist_id", columns=COLUMNS)

    def run() -> None:
        bronze.flush()
        job.run(spark)

    artists.insert(RAY)
    run()
    artists.insert(ARP)
    run()
    artists.update(ARP, HANS)
    artists.update(RAY, {**RAY, "name": "Man Ray"})
    run()
    artists.delete(HANS)
    run()
    insert_with_new_column(artists)
    run()


def insert_with_new_column(artists: Topic) -> None:
    artists.columns["born"] = "int"
    artists.insert({**ARP, "born": 1886})


def describe(history: RowHistory) -> list[tuple[Any, ...]]:
    """Return operation, name before and name after of each change."""
    changes = history.changes.collect()
    return [
        (row["op"], row["before"] and row["before"]["name"], row["after"] and row["after"]["name"]) for row in changes
    ]


LIFE = [("c", None, "Arp"), ("u", "Arp", "Hans Arp"), ("d", "Hans Arp", None), ("c", None, "Arp")]


@pytest.mark.spark
@pytest.mark.parametrize("sink", nightly_after(1, [*TABLE_SINKS, "delta"]))
def test_changes_of_a_row_are_read_from_versions(tmp_path: Path, spark: SparkSession, sink: str) -> None:
    job = pipeline(tmp_path, sink)
    apply_changes(job, spark, tmp_path)
    history = job.read_row_history(TABLE, "1", spark=spark)
    assert describe(history) == LIFE
    assert (history.table, history.key, history.is_complete, history.unread) == (TABLE, {"artist_id": "1"}, True, 0)
    versions = [table.version for batch in job.history(spark) for table in batch.tables]
    changes = history.changes.collect()
    assert [row["version"] for row in changes] == versions[1:]
    assert [row["written"] for row in changes] == sorted(row["written"] for row in changes)
    positions = [row["position"] for row in changes]
    assert [position is None for position in positions] == [False, False, True, False]
    assert [row["committed"] for row in changes] == [None] * 4
    assert changes[-1]["after"].asDict() == {**ARP, "born": 1886}
    later = job.read_row_history(TABLE, {"artist_id": 1}, since=versions[2], until=versions[3], spark=spark)
    assert (describe(later), later.is_complete) == ([("r", None, "Hans Arp"), ("d", "Hans Arp", None)], False)
    assert describe(job.read_row_history(TABLE, "2", spark=spark)) == [("c", None, "Ray"), ("u", "Ray", "Man Ray")]
    assert not describe(job.read_row_history(TABLE, "3", spark=spark))


@pytest.mark.spark
def test_changes_of_a_row_are_read_from_its_history(tmp_path: Path, spark: SparkSession) -> None:
    job = pipeline(tmp_path, sinks=[sink_block("iceberg", tmp_path, mode="both")])
    apply_changes(job, spark, tmp_path)
    history = job.read_row_history(TABLE, "artist_id=1", spark=spark)
    assert describe(history) == LIFE
    assert (history.table, history.is_complete) == (f"{TABLE}_history", True)
    changes = history.changes.collect()
    assert changes[1]["before"].asDict() == {**ARP, "born": None}
    assert changes[-1]["after"].asDict() == {**ARP, "born": 1886}
    positions, times = [row["position"] for row in changes], [row["committed"] for row in changes]
    assert (positions, times) == (sorted(positions), sorted(times))
    assert len(set(positions)) == len(LIFE)
    assert {(row["version"], row["written"]) for row in changes} == {(None, None)}
    assert not describe(job.read_row_history(f"{TABLE}_history", "3", spark=spark))
    with pytest.raises(ConfigError, match="the table has all versions of its rows"):
        job.read_row_history(TABLE, "1", since="2020-01-01", spark=spark)


@pytest.mark.spark
def test_newest_versions_are_read(tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.engine.commands.row_history.MAX_VERSIONS", 2)
    source = FilesSource(path=str(tmp_path / "bronze"), format="avro")
    tables, store = [{"source": TOPIC, "key": ["artist_id"], "target": TABLE}], MemorySink(store=str(tmp_path))
    job = Pipeline("artists", source, [store], str(tmp_path / "checkpoint"), tables=tables, transforms=[Unwrap()])
    apply_changes(job, spark, tmp_path)
    newest = job.read_row_history(TABLE, "1", spark=spark)
    assert (describe(newest), newest.unread, newest.is_complete) == ([("c", None, "Arp")], 3, False)
    assert newest.oldest is not None
    earlier = job.read_row_history(TABLE, "1", until=newest.oldest.version, spark=spark)
    assert (describe(earlier), earlier.unread) == ([("r", None, "Hans Arp"), ("d", "Hans Arp", None)], 2)


@pytest.mark.spark
def test_value_that_does_not_fit_its_column_is_rejected(spark: SparkSession) -> None:
    columns = "1 AS id, cast('1.50' AS decimal(5, 2)) AS price, date '2020-02-29' AS day, 'a' AS name, timestamp '2020-02-29' AS at"
    rows = spark.sql(f"SELECT {columns}")
    fitting = {"ID": "1", "price": "1.5", "day": "2020-02-29", "name": "a", "at": "2020-02-29 00:00:00"}
    assert rows.where(match_key(type_key(fitting, rows), rows)).count() == 1
    for name, value in {
        "id": "1.5",
        "price": "1.505",
        "day": "2020-02-29 12:00:00",
        "at": "noon",
        "name": None,
    }.items():
        with pytest.raises(ConfigError, match=f"{value!r} is no value of the key column {name!r}"):
            type_key({name: value}, rows)
