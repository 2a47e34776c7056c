"""Catch-up of a failed table while other tables continue. Every change is applied once."""

from __future__ import annotations

import json
import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.bronze import Bronze
from tests.support.pipelines import COLUMNS, rows, sink_block
from tests.support.ranged import LinesSource, append
from tests.support.tiers import nightly_after
from tests.support.waiting import stop_at_end, until

from headrace import ConfigError, HeadraceError, Pipeline, RetriableError
from headrace.checkpoint.backlog import BacklogEntry
from headrace.checkpoint.progress_log import ProgressLog
from headrace.config.settings import Settings
from headrace.engine.batch.backlogs import Backlogs
from headrace.engine.run import catch_up
from headrace.errors import RuleError
from headrace.progress.model import BatchProgress, TableProgress
from headrace.sdk.reject_reason import RejectReason
from headrace.sdk.sink import Batch, Sink, Table, WriteResult
from headrace.spark.storage import Folder
from headrace_sinks.files import FilesSink
from headrace_sources.formats.json.json_format import JsonFormat
from headrace_sources.transports.files import FilesSource

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from headrace.engine.run.query import Query
    from headrace.sdk.source import Source

pytestmark = [pytest.mark.spark, pytest.mark.one_spark]

GOOD, BAD = "shop.public.orders", "shop.public.customers"


class BrokenSink(FilesSink):
    """Sink that rejects one table while a file exists.

    The content of the file is part of the error. With ``hang`` the write blocks, with ``once`` it fails once.
    """

    name = "broken"

    def __init__(self, broken: Path, **options: Any) -> None:
        super().__init__(**options)
        self.broken = broken

    def write(self, table: Table, rows: DataFrame, batch: Batch) -> WriteResult:
        if table.name == BAD and self.broken.exists():
            kind = self.broken.read_text()
            while kind == "hang" and self.broken.exists():
                time.sleep(0.05)
            if kind == "once":
                self.broken.unlink()
            raise (RetriableError if kind == "away" else ConfigError)(f"the disk is {kind}", fix="mend it")
        return super().write(table, rows, batch)


class Shop:
    """Pipeline of two tables from a native or a ranged source. One of the tables can be made to fail."""

    lines: type[LinesSource] = LinesSource

    def __init__(self, folder: Path, kind: str, **options: Any) -> None:
        """Create empty inputs; ``options`` are passed to the files source."""
        self.folder, self.kind, self.broken, self.options = folder, kind, folder / "broken", options
        self.log, self.landing, self.files = folder / "log.jsonl", folder / "landing", 0
        self.log.touch()
        self.landing.mkdir()

    def add(self, *numbers: int, topics: tuple[str, ...] = (GOOD, BAD)) -> None:
        for topic in topics:
            if self.kind == "ranged":
                append(self.log, numbers, topic)
                continue
            folder = self.landing / topic
            folder.mkdir(exist_ok=True)
            hidden = folder / ".hidden"
            hidden.write_text("".join(json.dumps({"id": n}) + "\n" for n in numbers))
            hidden.rename(folder / f"{topic}+0+{self.files:010d}.json")
            self.files += len(numbers)

    def pipeline(self, *sinks: Sink, **options: Any) -> Pipeline:
        source: Source = FilesSource(path=str(self.landing), format="json", maxFilesPerTrigger=2, **self.options)
        if self.kind == "ranged":
            source = self.lines(path=str(self.log))
        sink = BrokenSink(self.broken, path=str(self.folder / "out"))
        value = JsonFormat() if self.kind == "ranged" else None
        return Pipeline("shop", source, [*sinks, sink], str(self.folder / "checkpoint"), value=value, **options)

    def ids(self, topic: str, out: str = "out") -> list[int]:
        found = (self.folder / out / topic.replace(".", "/")).glob("_headrace_batch=*/*.json")
        return sorted(json.loads(line)["id"] for file in found for line in file.read_text().splitlines())


@pytest.fixture(params=nightly_after(1, ["ranged", "native"]))
def shop(tmp_path: Path, request: pytest.FixtureRequest) -> Shop:
    return Shop(tmp_path, request.param)


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catch_up, "FIRST_PAUSE_SECONDS", 0.5)
    monkeypatch.setattr(catch_up, "LONGEST_PAUSE_SECONDS", 0.5)


def errors(query: Query) -> list[str]:
    """Return the errors of the failing table from all batches, oldest first."""
    found = (table for batch in query.recent_progress for table in batch.tables if table.table == BAD)
    return [table.error for table in found if table.error]


# The kind of source affects the backlog and the kind of error affects the retries. The two are independent,
# so not every combination is tested.
@pytest.mark.parametrize(
    ("shop", "kind"), nightly_after(1, [("ranged", "full"), ("native", "away")]), indirect=["shop"]
)
def test_tables_continue_while_one_catches_up(shop: Shop, spark: SparkSession, kind: str) -> None:
    shop.broken.write_text(kind)
    with stop_at_end(shop.pipeline().start(spark, "100 milliseconds")) as query:
        for number in range(2):
            shop.add(number)
            until(lambda number=number: number in shop.ids(GOOD), "the other table")  # type: ignore[misc]
        assert shop.ids(BAD) == []
        until(lambda: len(errors(query)) >= 2, "batches without the table")
        assert all(f"the disk is {kind}" in error and "fix: mend it" in error for error in errors(query))
        shop.broken.unlink()
        until(lambda: shop.ids(BAD) == [0, 1], "the table that failed")
        shop.add(2)
        until(lambda: shop.ids(BAD) == shop.ids(GOOD) == [0, 1, 2], "both tables")
        assert not [table.error for table in query.recent_progress[-1].tables if table.error]
    assert shop.ids(BAD) == [0, 1, 2]


@pytest.mark.nightly
def test_finite_run_reports_a_failed_table_and_a_later_run_catches_up(shop: Shop, spark: SparkSession) -> None:
    shop.broken.write_text("full")
    for number in range(2):
        shop.add(number)
        with pytest.raises(ConfigError, match="the disk is full") as caught:
            shop.pipeline().run(spark)
        assert f"table {BAD}" in str(caught.value)
    assert (shop.ids(GOOD), shop.ids(BAD)) == ([0, 1], [])
    shop.broken.unlink()
    with pytest.raises(ConfigError, match=f"table {BAD}: has a backlog of the topic '{BAD}', and no rule"):
        shop.pipeline(tables=[{"source": GOOD}]).run(spark)
    shop.pipeline().run(spark)  # there are no new records
    assert shop.ids(BAD) == [0, 1]
    shop.add(2)
    shop.pipeline().run(spark)
    assert shop.ids(BAD) == shop.ids(GOOD) == [0, 1, 2]
    assert not (shop.folder / "checkpoint/backlog").exists() or not list((shop.folder / "checkpoint/backlog").iterdir())


@pytest.mark.nightly
def test_repeated_batch_is_in_the_backlog_once(shop: Shop, spark: SparkSession) -> None:
    shop.broken.write_text("full")
    shop.add(0)
    with pytest.raises(ConfigError):
        shop.pipeline().run(spark)
    # This is the state after a crash before the batch was recorded as done.
    done = "ranged" if shop.kind == "ranged" else "stream"
    shutil.rmtree(shop.folder / "checkpoint" / done / "commits")
    with pytest.raises(ConfigError):
        shop.pipeline().run(spark)
    shop.broken.unlink()
    shop.add(1)
    shop.pipeline().run(spark)
    assert shop.ids(BAD) == shop.ids(GOOD) == [0, 1]


@pytest.mark.nightly
def test_sink_that_applied_a_batch_rejected_by_another_has_rows_once(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catch_up, "FIRST_PAUSE_SECONDS", 600.0)  # the retry happens at the end of the run
    shop = Shop(tmp_path, "native")
    shop.broken.write_text("once")
    for number in range(3):  # each number is one batch
        shop.add(number)
    shop.pipeline(FilesSink(path=str(tmp_path / "other"))).run(spark)
    assert shop.ids(BAD, "other") == shop.ids(BAD) == shop.ids(GOOD) == [0, 1, 2]


@pytest.mark.nightly
def test_table_catches_up_with_batches_that_have_a_new_schema(tmp_path: Path, spark: SparkSession) -> None:
    shop = Shop(tmp_path, "ranged")
    shop.broken.write_text("full")
    for number, names in enumerate((["id"], ["id", "size"])):
        shop.add(number, topics=(GOOD,))  # a second table keeps the run alive
        fields = [{"type": "int32", "optional": False, "field": name} for name in names]
        schema = {"type": "struct", "fields": fields, "optional": False, "name": "Value"}
        line = {"line": 2 * number + 2, "topic": BAD, "key": {"id": number}}
        with shop.log.open("a") as file:
            print(json.dumps({**line, "value": {"schema": schema, "payload": dict.fromkeys(names, number)}}), file=file)
        with pytest.raises(ConfigError, match="the disk is full"):
            shop.pipeline(FilesSink(path=str(tmp_path / "other"))).run(spark)
    shop.broken.unlink()
    shop.pipeline(FilesSink(path=str(tmp_path / "other"))).run(spark)
    assert shop.ids(BAD, "other") == shop.ids(BAD) == [0, 1]


def test_attempted_batch_is_retried_alone(tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catch_up, "FIRST_PAUSE_SECONDS", 600.0)
    applied: list[tuple[int, int]] = []
    backlogs = Backlogs(Folder(spark, str(tmp_path)))
    tables = catch_up.CatchUp(backlogs, lambda _, entry: applied.append((entry.first, entry.last)))
    backlogs.set_aside(BAD, 7, {BAD: [7]}, ConfigError("its dead letters could not be kept"), "full")
    tables.start(is_delayed=True)
    for batch in (8, 9, 10):
        backlogs.defer(BAD, batch, lambda batch=batch: {BAD: [batch]})  # type: ignore[misc]
    assert tables.finish() is None
    assert applied == [(7, 7), (8, 9), (10, 10)]


class CannotReplay(LinesSource):
    """Source that cannot replay a batch."""

    def replay_range(self, *_: Any) -> None:
        return None


@pytest.mark.nightly
def test_batch_that_cannot_be_replayed_is_not_skipped(tmp_path: Path, spark: SparkSession) -> None:
    shop = Shop(tmp_path, "ranged")
    shop.broken.write_text("full")
    shop.add(0)
    with pytest.raises(ConfigError, match="the disk is full"):
        shop.pipeline().run(spark)
    shop.lines = CannotReplay
    shop.add(1)
    with pytest.raises(ConfigError, match=f"table {BAD}: waits for its backlog"):
        shop.pipeline().run(spark)
    shop.broken.unlink()
    shop.lines = LinesSource
    shop.pipeline().run(spark)
    assert shop.ids(BAD) == shop.ids(GOOD) == [0, 1]


@pytest.mark.nightly
def test_files_in_a_backlog_are_not_removed(tmp_path: Path, spark: SparkSession) -> None:
    shop = Shop(tmp_path, "native", cleanSource="delete")
    shop.broken.write_text("full")
    for number in range(3):  # each number is one batch
        shop.add(number)
    with pytest.raises(ConfigError, match="the disk is full"):
        shop.pipeline().run(spark)
    shop.broken.unlink()
    shop.pipeline().run(spark)
    assert shop.ids(BAD) == shop.ids(GOOD) == [0, 1, 2]


@pytest.mark.nightly
def test_records_in_a_backlog_are_not_acknowledged(tmp_path: Path, spark: SparkSession) -> None:
    shop = Shop(tmp_path, "ranged")
    shop.broken.write_text("full")
    shop.add(0)
    pipeline = shop.pipeline()
    source = pipeline.source
    assert isinstance(source, LinesSource)
    with pytest.raises(ConfigError):
        pipeline.run(spark)
    assert source.committed == []
    shop.broken.unlink()
    pipeline.run(spark)  # the table catches up
    shop.add(1)
    pipeline.run(spark)
    assert source.committed[-1] == 4


@pytest.mark.nightly
def test_table_that_exceeds_the_timeout_is_deferred(tmp_path: Path, spark: SparkSession) -> None:
    shop = Shop(tmp_path, "ranged")
    shop.broken.write_text("hang")
    with stop_at_end(
        shop.pipeline(settings=Settings(table_timeout="15 seconds")).start(spark, "100 milliseconds")
    ) as query:
        for number in range(3):
            shop.add(number)
            until(lambda number=number: number in shop.ids(GOOD), "the other table")  # type: ignore[misc]
        until(lambda: errors(query), "a batch without the blocked table")
        assert "was not written within 15 seconds" in errors(query)[0]
        assert "table.timeout" in errors(query)[0]
        shop.broken.unlink()
        until(lambda: shop.ids(BAD) == [0, 1, 2], "the table that was blocked")


@pytest.mark.parametrize("shop", ["ranged"], indirect=True)
def test_run_stops_when_every_table_failed(shop: Shop, spark: SparkSession) -> None:
    shop.broken.write_text("full")
    shop.add(0, topics=(BAD,))
    with pytest.raises(ConfigError, match="the disk is full"):
        shop.pipeline().start(spark, "100 milliseconds").await_termination(120)
    shop.broken.unlink()
    shop.pipeline().run(spark)
    assert shop.ids(BAD) == [0]


@pytest.mark.nightly
@pytest.mark.parametrize("shop", ["native"], indirect=True)
def test_run_waits_for_an_unreachable_sink_even_without_healthy_tables(shop: Shop, spark: SparkSession) -> None:
    shop.broken.write_text("away")
    shop.add(0, topics=(BAD,))
    with stop_at_end(shop.pipeline().start(spark, "100 milliseconds")) as query:
        until(lambda: query.recent_progress, "a batch that failed")
        assert query.is_active
        shop.broken.unlink()
        until(lambda: shop.ids(BAD) == [0], "the table")


def test_stop_rule_applies_during_catch_up(tmp_path: Path, spark: SparkSession) -> None:
    shop = Shop(tmp_path, "native")
    shop.broken.write_text("full")
    with stop_at_end(
        shop.pipeline(settings=Settings(dead_letters={RejectReason.UNDECODABLE: "stop"})).start(
            spark, "100 milliseconds"
        )
    ) as query:
        shop.add(0)
        (shop.landing / BAD / f"{BAD}+0+9.json").write_text("no JSON\n")
        until(lambda: errors(query), "a batch without the table")
        shop.broken.unlink()
        with pytest.raises(RuleError, match="1 record: undecodable"):
            query.await_termination(120)


@pytest.mark.nightly
def test_table_is_retried_after_any_error(tmp_path: Path, spark: SparkSession) -> None:
    attempts: list[BacklogEntry] = []

    def apply(_: str, part: BacklogEntry) -> None:
        attempts.append(part)
        if len(attempts) < 3:
            raise ValueError("nobody thought of it")

    backlogs = Backlogs(Folder(spark, str(tmp_path)))
    tables = catch_up.CatchUp(backlogs, apply)
    backlogs.set_aside(BAD, 7, {BAD: [0]}, ConfigError("at first"), "at first")
    tables.start(is_delayed=True)
    until(lambda: len(attempts) == 2, "the second attempt")
    assert "ValueError: nobody thought of it" in str(backlogs.errors[BAD])
    until(lambda: not backlogs.errors, "the table")
    assert [part.first for part in attempts] == [7, 7, 7]
    assert not list(tmp_path.iterdir())


@pytest.mark.nightly
def test_progress_contains_all_tables_that_catch_up_together(tmp_path: Path, spark: SparkSession) -> None:
    names = [f"t{number}" for number in range(8)]
    log = ProgressLog(Folder(spark, str(tmp_path)))
    log.add(BatchProgress("shop", 1, "", 1.0, tuple(table(name, "waits") for name in names)))
    with ThreadPoolExecutor(len(names)) as pool:
        done = [pool.submit(log.amend, BatchProgress("shop", 1, "", 1.0, (table(name, None),))) for name in names]
    assert [future.result() for future in done] == [None] * len(names)
    (batch,) = log.all()
    assert [found.error for found in batch.tables] == [None] * len(names)


def table(name: str, error: str | None) -> TableProgress:
    return TableProgress(name, "files", rows_in=1, applied=1, late=0, seconds=1.0, error=error)


@pytest.mark.nightly
def test_incompatible_column_type_fails_only_its_own_table(tmp_path: Path, spark: SparkSession) -> None:
    bronze = Bronze(tmp_path / "bronze")
    artists, works = (bronze.topic(f"moma.public.{n}", key="artist_id", columns=COLUMNS) for n in ("artists", "works"))
    arp = {"artist_id": 1, "name": "Arp", "nationality": "German"}
    pipeline = Pipeline.from_dict(
        {
            "name": "moma",
            "source": {"files": {"path": str(tmp_path / "bronze"), "format": "avro"}},
            "tables": [{"source": "moma.public.*", "key": ["artist_id"], "target": "moma.{table}"}],
            "transforms": [{"unwrap": {}}],
            "sink": sink_block("iceberg", tmp_path),
            "checkpoint": str(tmp_path / "checkpoint"),
        }
    )
    for topic in (artists, works):
        topic.snapshot(arp)
    bronze.flush()
    pipeline.run(spark)
    works.columns["name"] = "int"
    works.insert({"artist_id": 2, "name": 7, "nationality": None})
    artists.insert({"artist_id": 2, "name": "Bauer", "nationality": None})
    bronze.flush()
    with pytest.raises(HeadraceError, match=r"moma\.works") as caught:
        pipeline.run(spark)
    assert "name" in str(caught.value)
    artists.delete(arp)
    works.delete({**arp, "name": 1})
    bronze.flush()
    with pytest.raises(HeadraceError, match=r"moma\.works"):
        pipeline.run(spark)
    assert [row["artist_id"] for row in rows(pipeline, spark, "moma.artists")] == [2]
    assert [row["artist_id"] for row in rows(pipeline, spark, "moma.works")] == [1]
