"""Processing of backlog entries: topics that could not be read, and orders that change."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.support import pipelines
from tests.support.record_log import LogRecord, RecordLog, append
from tests.support.unreachable_format import UnreachableFormat

from headrace import ConfigError, Pipeline, RetriableError
from headrace.checkpoint.progress_log import ProgressLog
from headrace.engine.plan import retry
from headrace.progress.rates import measure_tables
from headrace.sdk.sink import Batch, Sink, Table, WriteResult
from headrace.spark.storage import Folder
from headrace_sinks.files import FilesSink
from headrace_sinks.iceberg.iceberg_sink import IcebergSink
from headrace_transforms import Unwrap

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.one_spark]

ROUTED = {"source": "shop.*", "route.by.field": "source.table", "target": "shop.{table}", "key": ["id"]}


def event(op: str, table: str, lsn: int | None, **row: Any) -> dict[str, Any]:
    source = {"connector": "postgresql", "db": "shop", "schema": "public", "table": table, "ts_ms": 1}
    return {"before": None, "after": row, "op": op, "source": source | ({} if lsn is None else {"lsn": lsn})}


class BrokenSink(IcebergSink):
    """Sink that rejects the orders while a file exists."""

    broken: Path

    def write(self, table: Table, rows: DataFrame, batch: Batch) -> WriteResult:
        if table.name == "shop.orders" and self.broken.exists():
            raise ConfigError("the disk is full")
        return super().write(table, rows, batch)


class Shop:
    """Pipeline whose registry and whose sink can be made to fail."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark, self.folder, self.rules, self.other_sinks = spark, folder, [ROUTED], list[Sink]()
        self.down, self.broken, self.log = folder / "down", folder / "broken", folder / "log.jsonl"

    def run(self, **topics: list[dict[str, Any]]) -> None:
        """Append a record per event to the topics, and apply them. ``topics``: name, with ``_`` for a dot."""
        for topic, events in topics.items():
            offset = self.log.read_bytes().count(b"\n") if self.log.exists() else 0
            records = [LogRecord(topic.replace("_", "."), offset + n, {"id": 1}, body) for n, body in enumerate(events)]
            append(self.log, records)
        self.pipeline().run(self.spark)

    def pipeline(self) -> Pipeline:
        sink = BrokenSink(warehouse=str(self.folder / "lake"))
        sink.broken = self.broken
        source, value = RecordLog(path=str(self.log)), UnreachableFormat(self.down)
        sinks, checkpoint = [sink, *self.other_sinks], str(self.folder / "c")
        return Pipeline("shop", source, sinks, checkpoint, self.rules, [Unwrap()], value=value, key="none")

    def rows(self, table: str) -> list[dict[str, Any]]:
        return pipelines.rows(self.pipeline(), self.spark, table, key="id")

    def list_failing(self) -> list[str]:
        """Return the tables that the progress in the checkpoint reports as failing."""
        batches = ProgressLog(Folder(self.spark, str(self.folder / "c/progress"))).all()
        return [table.table for table in measure_tables(batches) if table.error]


@pytest.fixture
def shop(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shop:
    monkeypatch.setattr(retry, "FIRST_PAUSE_SECONDS", 0.01)
    return Shop(spark, tmp_path)


@pytest.mark.nightly
def test_table_gets_records_of_all_topics_that_failed_as_a_whole(shop: Shop) -> None:
    shop.down.touch()
    with pytest.raises(RetriableError, match="the registry is down"):
        shop.run(shop_first=[event("c", "orders", 1, id=1)], shop_second=[event("c", "orders", 2, id=2)])
    shop.down.rename(shop.broken)
    with pytest.raises((ConfigError, RetriableError), match=r"the disk is full|its backlog has batch 0"):
        shop.run()
    shop.broken.unlink()
    shop.run()  # The second topic waits for the backlog that the table has of the first.
    assert shop.rows("shop.orders") == [{"id": 1}, {"id": 2}]
    assert shop.list_failing() == []


@pytest.mark.nightly
def test_topic_that_failed_as_a_whole_is_applied_after_later_batches_of_other_topics(shop: Shop) -> None:
    """Each of its batches is applied once, also when the newest one is repeated after a crash."""
    shop.rules = [{**ROUTED, "source": "shop.first"}, {"source": "shop.second", "target": "shop.orders", "key": ["id"]}]
    shop.other_sinks = [FilesSink(path=str(shop.folder / name), mode="changelog") for name in ("a", "b")]
    shop.down.write_text("shop.first")
    for number in (1, 3):
        events = [[event("c", "orders", lsn, id=lsn)] for lsn in (number, number + 1)]
        with pytest.raises(RetriableError, match="the registry is down"):
            shop.run(shop_first=events[0], shop_second=events[1])
    shop.down.unlink()
    for is_repeated in (False, True):
        if is_repeated:
            shutil.rmtree(shop.folder / "c/ranged/commits")
        shop.run()
        assert shop.list_failing() == []
        for sink in ("iceberg", "files", "files-2"):
            rows = shop.pipeline().read("shop.orders", sink=sink, spark=shop.spark)
            assert sorted(row["id"] for row in rows.collect()) == [1, 2, 3, 4]


@pytest.mark.nightly
@pytest.mark.parametrize("cause", ["registry", "sink"])
def test_order_that_changes_in_a_backlog_starts_an_epoch(shop: Shop, cause: str) -> None:
    people = [event("c", "people", number, id=number) for number in (1, 2)]  # A table that does not fail.
    shop.run(shop_first=[event("c", "orders", 0x16B374D848, id=1, total=7), people[0]])
    failure = shop.broken if cause == "sink" else shop.down
    failure.touch()
    with pytest.raises((ConfigError, RetriableError), match=r"the disk is full|the registry is down"):
        shop.run(shop_first=[event("u", "orders", None, id=1, total=8), people[1]])
    failure.unlink()
    shop.run()
    assert shop.rows("shop.orders") == [{"id": 1, "total": 8}]


@pytest.mark.nightly
def test_metadata_topic_that_could_not_be_read_is_no_table(shop: Shop) -> None:
    shop.rules = [{"source": "shop.*", "key": ["id"]}]
    end = {"status": "END", "id": "571", "ts_ms": 1, "event_count": 1, "data_collections": None}
    shop.down.touch()
    with pytest.raises(RetriableError, match="the registry is down"):
        shop.run(shop_orders=[event("c", "orders", 1, id=1)], shop_transaction=[end])
    shop.down.unlink()
    shop.run()
    assert shop.rows("shop.orders") == [{"id": 1}]
    assert not [*(shop.folder / "lake").rglob("*transaction*")]
    assert shop.list_failing() == []
