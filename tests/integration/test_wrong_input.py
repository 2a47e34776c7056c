"""Wrong input: it results in one clear error or a dead letter, never in a partly written table."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import Observation
from tests.support.bronze import Bronze
from tests.support.pipelines import COLUMNS, TABLE, TABLE_SINKS, TOPIC, pipeline, rows, sink_block
from tests.support.tiers import nightly_after

from headrace import ConfigError, DataError, HeadraceError, PluginError
from headrace.checkpoint.layout import CheckpointFolders
from headrace.checkpoint.progress_log import ProgressLog
from headrace.errors import RuleError
from headrace.pipeline import Pipeline
from headrace.spark.sessions import clone
from headrace.spark.storage import Folder
from headrace_sinks.iceberg.iceberg_catalog import CATALOG

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.one_spark]

ARP = {"artist_id": 1, "name": "Arp", "nationality": "German"}
BAUER = {"artist_id": 2, "name": "Bauer", "nationality": "Austrian"}


def assert_run_fails(job: Pipeline, spark: SparkSession, error_type: type[HeadraceError], *texts: str) -> None:
    """Assert that the run fails with an error that contains all texts, and that no table exists."""
    with pytest.raises(error_type) as caught:
        job.run(spark)
    for text in texts:
        assert text in str(caught.value)
    for sink in job.sinks:
        with pytest.raises(ConfigError, match="there is no table"):
            job.read(TABLE, sink=sink.name, spark=spark)


@pytest.fixture
def bronze(tmp_path: Path) -> Bronze:
    bronze = Bronze(tmp_path / "bronze")
    bronze.topic(TOPIC, key="artist_id", columns=COLUMNS).snapshot(ARP)
    return bronze


def flush_file(bronze: Bronze) -> Path:
    (path,) = bronze.flush()
    return path


@pytest.mark.parametrize(
    ("content", "text"),
    [(b"name,age\nArp,3\n", "not an Avro file"), (b"", "the file is empty"), (b"Obj\x01\x02", "Avro file")],
)
def test_run_fails_for_file_that_is_not_avro(
    tmp_path: Path, spark: SparkSession, bronze: Bronze, content: bytes, text: str
) -> None:
    good = flush_file(bronze)
    bad = good.with_name(f"{TOPIC}+0+0000000001.avro")
    bad.write_bytes(content)
    assert_run_fails(
        pipeline(tmp_path, *TABLE_SINKS), spark, DataError, text, bad.name, "fix: move it out of the folder"
    )
    bad.unlink()


def test_truncated_file_fails_until_it_is_repaired(tmp_path: Path, spark: SparkSession, bronze: Bronze) -> None:
    for n in range(2, 200):
        bronze.topics[0].snapshot({**ARP, "artist_id": n})
    path = flush_file(bronze)
    content = path.read_bytes()
    path.write_bytes(content[: len(content) * 2 // 3])
    job = pipeline(tmp_path)
    assert_run_fails(job, spark, DataError, "truncated or damaged", path.name)
    path.write_bytes(content)
    job.run(spark)
    assert job.read(TABLE, spark=spark).count() == 199


@pytest.mark.nightly
def test_file_that_is_deleted_after_planning_fails_until_it_is_restored(
    tmp_path: Path, spark: SparkSession, bronze: Bronze
) -> None:
    path = flush_file(bronze)
    content = path.read_bytes()
    path.write_bytes(b"")
    job = pipeline(tmp_path)
    assert_run_fails(job, spark, DataError, "the file is empty")
    path.unlink()
    assert_run_fails(job, spark, DataError, "no longer exists", path.name, "ignoreMissingFiles")
    path.write_bytes(content)
    job.run(spark)
    assert rows(job, spark) == [ARP]


@pytest.mark.parametrize("sink", nightly_after(1, TABLE_SINKS))
def test_bad_records_become_dead_letters_and_others_are_applied(
    tmp_path: Path, spark: SparkSession, bronze: Bronze, sink: str
) -> None:
    artists = bronze.topics[0]
    artists.event("x", None, BAUER)
    artists.event("u", None, None)
    artists.snapshot(BAUER)
    path = flush_file(bronze)
    job = pipeline(tmp_path, sink)
    summary = job.run(spark)
    assert {(t.rows_in, t.dead_letters) for t in summary.tables} == {(4, 2)}
    assert rows(job, spark) == [ARP, BAUER]
    dead_letters = job.read("dead_letters", spark=spark).collect()
    assert [(r["reason"], r["table"], r["topic"], r["partition"]) for r in dead_letters] == [
        ("op-unknown", TABLE, TOPIC, 0),
        ("after-missing", TABLE, TOPIC, 0),
    ]
    assert dead_letters[0]["file"].endswith(path.name)
    assert [r["offset"] for r in dead_letters] == [1, 2], "the record's own offset, not only its file's"
    assert json.loads(dead_letters[0]["value"])["after"] == BAUER


@pytest.mark.parametrize("sink", nightly_after(1, [*TABLE_SINKS, "delta"]))
def test_dead_letters_are_written_once_to_configured_table(tmp_path: Path, spark: SparkSession, sink: str) -> None:
    bronze = Bronze(tmp_path / "bronze")
    for name in ("artists", "works"):
        topic = bronze.topic(f"moma.public.{name}", key="artist_id", columns=COLUMNS)
        topic.snapshot(ARP)
        topic.event("x", None, BAUER)
    bronze.flush()
    rule = {"source": "moma.public.*", "key": ["artist_id"], "target": "moma.{table}"}
    job = pipeline(tmp_path, sink, tables=[rule], **{"dead.letters.table": "ops.dead_letters"})
    job.run(spark)
    shutil.rmtree(Path(job.checkpoint) / "stream/commits")
    job.run(spark)  # the same batch, as after a crash
    dead_letters = job.read("ops.dead_letters", spark=spark).orderBy("topic").collect()
    assert [(row["pipeline"], row["table"], row["reason"], row["offset"]) for row in dead_letters] == [
        ("artists", "moma.artists", "op-unknown", 1),
        ("artists", "moma.works", "op-unknown", 1),
    ]
    assert len({row["id"] for row in dead_letters}) == 2
    assert {json.loads(row["value"])["after"]["name"] for row in dead_letters} == {"Bauer"}
    assert {item.table for item in job.measure(spark)} == {"moma.artists", "moma.works", "ops.dead_letters"}
    own = job.read("dead_letters", spark=spark)
    assert sorted(row["table"] for row in own.collect()) == ["moma.artists", "moma.works"]
    other = pipeline(
        tmp_path, sink, name="other", checkpoint=f"{tmp_path}/c2", **{"dead.letters.table": "ops.dead_letters"}
    )
    assert other.read_dead_letters(spark) is None
    assert not (Path(job.checkpoint) / "dead_letters").exists()


def test_append_only_sink_cannot_keep_dead_letters_table(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"dead\.letters\.table: no sink of this pipeline replaces and removes rows"):
        pipeline(tmp_path, "files", **{"dead.letters.table": "ops.dead_letters"})
    with pytest.raises(ConfigError, match=r"'\.\./x' is not a table name"):
        pipeline(tmp_path, **{"dead.letters.table": "../x"})


@pytest.mark.nightly
def test_policies_of_dead_letter_reasons_are_applied(tmp_path: Path, spark: SparkSession, bronze: Bronze) -> None:
    artists = bronze.topics[0]
    artists.event("x", None, BAUER)
    artists.event("u", None, None)
    artists.snapshot(BAUER)
    flush_file(bronze)
    stopped = pipeline(tmp_path, **{"dead.letters": {"op-unknown": "drop", "after-missing": "stop"}})
    with pytest.raises(RuleError) as caught:
        stopped.run(spark)
    assert str(caught.value) == (
        f"table {TABLE}: 1 record: after-missing, a change without its row (`after`)\n  fix: fix the producer; or "
        "set `dead-letter` for this reason in `dead.letters:` to keep them as dead letters"
    )
    job = pipeline(tmp_path, **{"dead.letters": {"op-unknown": "drop"}})
    (summary,) = job.run(spark).tables
    assert rows(job, spark) == [ARP, BAUER]
    assert summary.dead_letters == 1
    log = ProgressLog(CheckpointFolders(Folder(spark, job.checkpoint)).batch_progress)
    (progress,) = (table for batch in log.all() for table in batch.tables)
    assert (progress.dead_letters, progress.dropped) == (1, 1)
    (dead_letter,) = job.read("dead_letters", spark=spark).collect()
    assert (dead_letter["reason"], dead_letter["plugin"]) == ("after-missing", "debezium")
    assert dead_letter["error"] == "a change without its row (`after`)"


@pytest.mark.parametrize(("limit", "run_ends"), nightly_after(1, [("1%", True), (2, False)]))
def test_too_many_dead_letters_end_the_run(
    tmp_path: Path, spark: SparkSession, bronze: Bronze, limit: int | str, run_ends: bool
) -> None:
    artists = bronze.topics[0]
    for number in range(100):
        artists.snapshot({**BAUER, "artist_id": 10 + number})
    for _ in range(2):
        artists.event("x", None, BAUER)
    flush_file(bronze)
    job = pipeline(tmp_path, **{"max.dead.letters": limit})
    if run_ends:
        with pytest.raises(RuleError, match=rf"2 of 103 records are dead letters, and `max.dead.letters` is {limit}"):
            job.run(spark)
    else:
        job.run(spark)
    assert job.read("dead_letters", spark=spark).count() == 2
    assert len(rows(job, spark)) == 101


def test_run_waits_once_for_missing_counts(
    tmp_path: Path, spark: SparkSession, bronze: Bronze, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A wait takes ten seconds and blocks the stream."""
    requested: list[Observation] = []

    def get_nothing(observation: Observation) -> dict[str, Any]:
        requested.append(observation)
        return {}

    monkeypatch.setattr(Observation, "get", property(get_nothing))
    bronze.topics[0].event("x", None, BAUER)
    flush_file(bronze)
    unwrap = {"unwrap": {"delete.tombstone.handling.mode": "drop"}}
    job = pipeline(tmp_path, sinks=[sink_block("iceberg", tmp_path, mode="append")], transforms=[unwrap])
    (summary,) = job.run(spark).tables
    assert len(requested) == 1
    assert (summary.rows_in, summary.applied, summary.dead_letters) == (None, None, 1)
    assert rows(job, spark) == [ARP]


@pytest.mark.nightly
def test_repeated_batch_writes_missing_dead_letters(tmp_path: Path, spark: SparkSession, bronze: Bronze) -> None:
    bronze.topics[0].event("x", None, BAUER)
    flush_file(bronze)
    job = pipeline(tmp_path)
    obstacle = Path(job.checkpoint) / "dead_letters"
    obstacle.parent.mkdir(parents=True)
    obstacle.write_text("a file, where a folder must be")
    with pytest.raises(HeadraceError):
        job.run(spark)
    assert rows(job, spark) == [ARP], "the table was written"
    obstacle.unlink()
    (progress,) = job.run(spark).tables
    assert progress.dead_letters == 1
    assert [row["reason"] for row in job.read("dead_letters", spark=spark).collect()] == ["op-unknown"]
    assert rows(job, spark) == [ARP]


@pytest.mark.nightly
def test_dead_letters_keep_bytes_of_lines_that_are_not_json(tmp_path: Path, spark: SparkSession) -> None:
    bronze = Bronze(tmp_path / "bronze", format="json")
    bronze.topic(TOPIC, key="artist_id", columns=COLUMNS).snapshot(ARP)
    path = flush_file(bronze)
    with path.open("ab") as file:
        file.write(b"{not json at all\n\xff\xfe\x00\n")
    job = pipeline(tmp_path, source={"files": {"path": str(tmp_path / "bronze"), "format": "json"}})
    summary = job.run(spark)
    assert (summary.tables[0].rows_in, summary.tables[0].dead_letters) == (3, 2)
    assert rows(job, spark) == [ARP]
    assert [(r["reason"], bytes(r["value"])) for r in job.read("dead_letters", spark=spark).collect()] == [
        ("undecodable", b"{not json at all"),
        ("undecodable", b"\xff\xfe\x00"),
    ]


@pytest.mark.nightly
def test_dead_letters_contain_masked_values(tmp_path: Path, spark: SparkSession, bronze: Bronze) -> None:
    bronze.topics[0].event("x", None, {**BAUER, "name": "canary-4711"})
    flush_file(bronze)
    mask = {"mask": {"columns": {"name": {"characters": 3}}}}
    job = pipeline(tmp_path, transforms=[mask, {"unwrap": {}}])
    job.run(spark)
    (dead_letter,) = job.read("dead_letters", spark=spark).collect()
    assert b"***" in dead_letter["value"]
    assert b"canary" not in dead_letter["value"]


def test_run_fails_if_no_record_is_json(tmp_path: Path, spark: SparkSession) -> None:
    folder = tmp_path / "bronze" / TOPIC
    folder.mkdir(parents=True)
    (folder / "part-0.json").write_bytes(b"\x00\x01garbage\nmore garbage\n")
    job = pipeline(tmp_path, source={"files": {"path": str(tmp_path / "bronze"), "format": "json"}})
    assert_run_fails(job, spark, DataError, "none of the records is a JSON object", TOPIC)


@pytest.mark.nightly
def test_first_batches_without_rows_create_no_table(tmp_path: Path, spark: SparkSession) -> None:
    def event(op: str, lsn: int, row: dict[str, Any] | None) -> str:
        return json.dumps({"before": None, "after": row, "op": op, "source": {"connector": "postgresql", "lsn": lsn}})

    folder = tmp_path / "bronze" / TOPIC
    folder.mkdir(parents=True)
    source = {"files": {"path": str(tmp_path / "bronze"), "format": "json"}}
    # The columns that transforms add are no columns of the table's rows.
    transforms = [{"unwrap": {"add.fields": "op"}}, {"insert": {"static.field": "lake", "static.value": "test"}}]
    job = pipeline(tmp_path, source=source, transforms=transforms, **{"dead.letters": {"undecodable": "dead-letter"}})
    for number, lines in enumerate((["garbage"], [event("t", 20, None), event("u", 21, None)])):
        (folder / f"{number}.json").write_text("\n".join(lines))
        job.run(spark)
        with pytest.raises(ConfigError, match="there is no table"):
            job.read(TABLE, spark=spark)
    (folder / "2.json").write_text(f"{event('c', 19, ARP)}\n{event('c', 22, BAUER)}")
    job.run(spark)
    assert rows(job, spark) == [{**BAUER, "__op": "c", "lake": "test"}], "the truncate is newer than Arp"
    dead_letters = [(row["reason"], bytes(row["value"])) for row in job.read("dead_letters", spark=spark).collect()]
    assert dead_letters == [("undecodable", b"garbage"), ("after-missing", event("u", 21, None).encode())]


def test_run_fails_for_envelopes_without_op(tmp_path: Path, spark: SparkSession) -> None:
    folder = tmp_path / "bronze" / TOPIC
    folder.mkdir(parents=True)
    event = {"before": None, "after": ARP, "source": {"connector": "postgresql", "lsn": 1}, "ts_ms": 1}
    (folder / "part-0.json").write_text(json.dumps(event) + "\n")
    job = pipeline(tmp_path, source={"files": {"path": str(tmp_path / "bronze"), "format": "json"}})
    assert_run_fails(job, spark, DataError, "no `op`", TOPIC)


def test_run_fails_for_unknown_key_column(tmp_path: Path, spark: SparkSession, bronze: Bronze) -> None:
    flush_file(bronze)
    job = pipeline(tmp_path, tables=[{"source": TOPIC, "key": ["artist"], "target": TABLE}])
    assert_run_fails(job, spark, DataError, "no such key column: 'artist'", "did you mean 'artist_id'?")


@pytest.mark.parametrize("sink", nightly_after(1, TABLE_SINKS))
def test_events_without_key_are_appended_and_upsert_fails(
    tmp_path: Path, spark: SparkSession, bronze: Bronze, sink: str
) -> None:
    artists = bronze.topics[0]
    artists.update(ARP, {**ARP, "name": "Hans Arp"})
    artists.delete({**ARP, "name": "Hans Arp"})
    flush_file(bronze)
    job = pipeline(tmp_path, sink, tables=[{"source": TOPIC, "target": TABLE}])
    found = {item.what: item.found for item in job.check(spark)}
    assert "key none: every change is a row, with its `__op`" in found[f"topic {TOPIC}"]
    notes: list[str | None] = []
    job.run(spark, on_progress=lambda progress: notes.extend(table.note for table in progress.tables))
    assert notes == [
        "its events have no key, so every change is a row with its `__op`; `key:` in `tables:` names key columns"
    ]
    assert [(row["__op"], row["name"]) for row in rows(job, spark, own_columns=True, key="_headrace_position")] == [
        ("r", "Arp"),
        ("u", "Hans Arp"),
        ("d", "Hans Arp"),
    ]
    keyed = pipeline(
        tmp_path,
        sinks=[sink_block(sink, tmp_path / "keyed", mode="upsert")],
        tables=[{"source": TOPIC, "target": TABLE}],
        checkpoint=f"{tmp_path}/c2",
    )
    assert_run_fails(keyed, spark, DataError, "no key", "name the key columns")


@pytest.mark.parametrize("sink", TABLE_SINKS)
def test_check_reports_missing_partition_column(tmp_path: Path, spark: SparkSession, bronze: Bronze, sink: str) -> None:
    flush_file(bronze)
    options = {"partition.by": {"*": ["city"]}, "hoodie.datasource.write.partitionpath.field": "city"}
    own = {name: value for name, value in options.items() if name.startswith("hoodie.") == (sink == "hudi")}
    job = pipeline(tmp_path, sinks=[sink_block(sink, tmp_path, **own)])
    (error,) = [str(item.error) for item in job.check(spark) if item.error]
    assert f"table '{TABLE}' has no column 'city' to partition by; its columns are {', '.join(COLUMNS)}" in error


def test_run_fails_for_unknown_column_of_transform(tmp_path: Path, spark: SparkSession, bronze: Bronze) -> None:
    flush_file(bronze)
    job = pipeline(tmp_path, transforms=[{"unwrap": {}}, {"rename": {"columns": {"nationalty": "country"}}}])
    assert_run_fails(
        job,
        spark,
        ConfigError,
        "no table has the column 'nationalty'",
        "did you mean 'nationality'?",
        "transform rename",
    )


@pytest.mark.parametrize("target", ["../escape", "moma.art; DROP TABLE x", 'a"b', "a..b", "a/b", ""])
def test_invalid_target_names_are_rejected(tmp_path: Path, target: str) -> None:
    with pytest.raises(ConfigError, match="not a table name"):
        pipeline(tmp_path, tables=[{"source": TOPIC, "target": target}])


def test_run_fails_for_topic_name_that_is_not_a_table_name(tmp_path: Path, spark: SparkSession) -> None:
    bronze = Bronze(tmp_path / "bronze")
    bronze.topic("moma.public.a'; DROP", key="artist_id", columns=COLUMNS).snapshot(ARP)
    bronze.flush()
    assert_run_fails(pipeline(tmp_path, tables=[]), spark, DataError, "not a table name", "name a `target:`")


def test_run_fails_without_write_permission(tmp_path: Path, spark: SparkSession, bronze: Bronze) -> None:
    flush_file(bronze)
    with pytest.raises(ConfigError, match="checkpoint file:/proc/headrace"):
        pipeline(tmp_path, checkpoint="/proc/headrace/checkpoint").run(spark)
    with pytest.raises(ConfigError, match="permission denied"):
        pipeline(tmp_path, sinks=[{"iceberg": {"warehouse": "/proc/headrace"}}]).run(spark)


def test_run_fails_for_missing_source_folder(tmp_path: Path, spark: SparkSession) -> None:
    with pytest.raises(ConfigError, match="no such folder"):
        pipeline(tmp_path).run(spark)


def test_upsert_of_envelopes_fails(tmp_path: Path, spark: SparkSession, bronze: Bronze) -> None:
    flush_file(bronze)
    job = pipeline(tmp_path, transforms=[], sinks=[sink_block("iceberg", tmp_path, mode="upsert")])
    assert_run_fails(job, spark, DataError, "mode upsert requires rows", "unwrap")


def test_checkpoint_of_another_pipeline_or_layout_is_rejected(
    tmp_path: Path, spark: SparkSession, bronze: Bronze
) -> None:
    flush_file(bronze)
    pipeline(tmp_path).run(spark)
    with pytest.raises(ConfigError, match="belongs to the pipeline 'artists'"):
        pipeline(tmp_path, name="other").run(spark)
    head = tmp_path / "checkpoint" / "headrace.json"
    stored: dict[str, Any] = json.loads(head.read_text())
    for crc in head.parent.glob(".headrace.json.crc"):
        crc.unlink()
    for layout in (1, 99):
        head.write_text(json.dumps({**stored, "layout": layout}))
        with pytest.raises(ConfigError, match=f"has layout {layout}; this version of headrace reads layout 2 only"):
            pipeline(tmp_path).run(spark)


@pytest.mark.nightly
def test_error_lists_settings_that_session_lacks(tmp_path: Path, spark: SparkSession, bronze: Bronze) -> None:
    flush_file(bronze)
    job = pipeline(
        tmp_path, sinks=[{"iceberg": {"catalog": "lake", "catalog.properties": {"type": "hadoop", "warehouse": "/w"}}}]
    )
    with pytest.raises(PluginError) as caught:
        job.run(spark)
    assert '.config("spark.sql.catalog.lake", "org.apache.iceberg.spark.SparkCatalog")' in str(caught.value)
    assert '.config("spark.sql.catalog.lake.warehouse", "/w")' in str(caught.value)


def test_session_of_caller_does_not_change(tmp_path: Path, spark: SparkSession, bronze: Bronze) -> None:
    """Runs and reads keep the settings, although Iceberg sets five of its own in the session that reads a folder."""
    flush_file(bronze)
    caller = spark.newSession()  # other tests read tables in the shared session
    conf = caller._jsparkSession.conf()
    caller.sql("SELECT 1").collect()  # Delta's extension sets two settings when a session plans its first query

    def get_state() -> tuple[Any, ...]:
        return str(conf.getAll()), caller.sql("SHOW TABLES").collect(), caller.catalog.currentDatabase()

    before = get_state()
    mask = {"mask": {"columns": {"name": {"sha256": {"salt": "pepper"}}}}}
    job = pipeline(tmp_path, *TABLE_SINKS, transforms=[{"unwrap": {}}, mask], spark={"spark.sql.shuffle.partitions": 3})
    job.run(caller)
    assert get_state() == before
    for sink in TABLE_SINKS:
        table = job.read(TABLE, sink=sink, spark=caller)
        assert table.sparkSession is caller
        assert table.count() == 1
    assert get_state() == before


@pytest.mark.nightly
def test_invalid_values_become_dead_letters_in_ansi_mode(tmp_path: Path, spark: SparkSession) -> None:
    """In ANSI mode, a cast that otherwise returns null raises an error."""
    caller = spark.newSession()
    caller.conf.set("spark.sql.ansi.enabled", "true")
    zoned = {"type": "string", "name": "io.debezium.time.ZonedTimestamp"}
    four_digits = {"scale": "2", "connect.decimal.precision": "4"}
    decimal = {"type": "bytes", "name": "org.apache.kafka.connect.data.Decimal", "parameters": four_digits}
    row = [{"field": "id", "type": "int64"}, {"field": "at", **zoned}, {"field": "price", **decimal}]
    source = [{"field": "connector", "type": "string"}, {"field": "lsn", "type": "int64"}]
    fields = [
        {"field": "after", "type": "struct", "fields": row},
        {"field": "source", "type": "struct", "fields": source},
        {"field": "op", "type": "string"},
    ]
    values = [
        ("2026-01-01T00:00:00Z", "BQ=="),  # 5
        ("no time", "BQ=="),
        ("2026-01-01T00:00:00Z", "BfXg/w=="),  # 99,999,999
    ]
    records = [
        {
            "schema": {"type": "struct", "fields": fields},
            "payload": {
                "after": {"id": number, "at": at, "price": price},
                "source": {"connector": "postgresql", "lsn": number},
                "op": "c",
            },
        }
        for number, (at, price) in enumerate(values, 1)
    ]
    folder = tmp_path / "bronze" / "shop.public.prices" / "partition=0"
    folder.mkdir(parents=True)
    lines = "".join(json.dumps(record, separators=(",", ":")) + "\n" for record in records)
    (folder / "shop.public.prices+0+0000000000.json").write_text(lines)
    job = pipeline(
        tmp_path,
        source={"files": {"path": str(tmp_path / "bronze"), "format": "json"}},
        tables=[{"source": "shop.public.prices", "key": ["id"], "target": TABLE}],
    )
    summary = job.run(caller)
    assert (summary.tables[0].rows_in, summary.tables[0].dead_letters) == (3, 2)
    assert [row["id"] for row in rows(job, caller, key="id")] == [1]


@pytest.mark.nightly
def test_first_run_creates_warehouse_folder_of_callers_catalog(
    tmp_path: Path, spark: SparkSession, bronze: Bronze
) -> None:
    flush_file(bronze)
    caller = clone(spark, {})
    for key, value in {"lake": CATALOG, "lake.type": "hadoop", "lake.warehouse": str(tmp_path / "not/yet")}.items():
        caller.conf.set(f"spark.sql.catalog.{key}", value)
    job = pipeline(tmp_path, sinks=[{"iceberg": {"catalog": "lake"}}])
    assert ("sink iceberg", "catalog lake: reachable, 0 namespaces") in [
        (item.what, item.found) for item in job.check(caller, connect=True)
    ]
    assert not (tmp_path / "not").exists()
    job.run(caller)
    assert [row["name"] for row in caller.table(f"lake.{TABLE}").collect()] == ["Arp"]
