"""Tables with rows of several sources: shards, partitions, or tables of several servers."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.support import pipelines
from tests.support.bronze import write_lines
from tests.support.tiers import nightly_after

from headrace import ConfigError, Pipeline

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.one_spark]

EU, US, ALL = "eu.shop.orders", "us.shop.orders", "shop.all"
TABLE = "shop.orders"
#: Binlog files of the servers: positions in `us` are lower than all in `eu`.
LOGS = {"eu": 9, "us": 2}


def event(op: str, server: str, pos: int, key: int | None = None, **source: Any) -> dict[str, Any]:
    source = {"connector": "mysql", "name": server, "db": "shop", "table": "orders", "ts_ms": pos, **source}
    source |= {"file": f"mysql-bin.{LOGS[server]:06d}", "pos": pos, "row": 0}
    return {"before": None, "after": key and {"region": server, "id": key}, "op": op, "source": source}


class Shards:
    """A pipeline of files into one table."""

    def __init__(self, folder: Path, spark: SparkSession, sink: str = "iceberg", **rule: Any) -> None:
        self._folder, self._spark, self._offset = folder, spark, 0
        rule = {"source": "/.*/", "target": TABLE, "key": ["region", "id"], **rule}
        source = {"files": {"path": str(folder / "bronze"), "format": "json"}}
        self.pipeline: Pipeline = pipelines.pipeline(folder, sink, source=source, tables=[rule])

    def run(self, events: Mapping[str, list[dict[str, Any]]]) -> list[str | None]:
        """Apply events by topic in one batch. Return the notes."""
        for topic, own in events.items():
            path = self._folder / f"bronze/topics/{topic}/partition=0/{topic}+0+{self._offset:010d}.json"
            write_lines(path, own)
        self._offset += 100
        notes: list[str | None] = []
        self.pipeline.run(self._spark, on_progress=lambda batch: notes.extend(table.note for table in batch.tables))
        return notes

    def keys(self) -> list[tuple[str, int]]:
        found = self.pipeline.read(TABLE, spark=self._spark).select("region", "id").collect()
        return sorted((row["region"], row["id"]) for row in found)

    def dead_letters(self) -> list[tuple[str, str]]:
        found = self.pipeline.read_dead_letters(self._spark)
        return [] if found is None else sorted((row["topic"], row["reason"]) for row in found.collect())


@pytest.mark.parametrize("sink", nightly_after(1, pipelines.TABLE_SINKS))
def test_truncate_concerns_the_rows_of_its_server(spark: SparkSession, tmp_path: Path, sink: str) -> None:
    shards = Shards(tmp_path, spark, sink)
    late = event("c", "eu", 20, 2)
    shards.run({EU: [event("c", "eu", 10, 1)]})
    assert shards.run({EU: [event("t", "eu", 50), event("c", "eu", 60, 3)]}) == [None]
    assert shards.keys() == [("eu", 3)]
    # All positions of the second server are below the truncate of the first.
    [note, *_] = shards.run({US: [event("c", "us", 10, 1), event("c", "us", 20, 2)], EU: [late]})
    assert note is not None
    assert note.endswith(f"only one of them: {EU}/eu/shop/orders, {US}/us/shop/orders")
    assert shards.keys() == [("eu", 3), ("us", 1), ("us", 2)]
    shards.run({EU: [event("t", "eu", 70)], US: [event("u", "us", 30, 2)]})
    assert shards.keys() == [("us", 1), ("us", 2)]
    shards.run({EU: [event("c", "eu", 80, 4)], US: [event("t", "us", 40), event("c", "us", 50, 3)]})
    assert shards.keys() == [("eu", 4), ("us", 3)]
    assert shards.dead_letters() == []


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("rule", "topics", "names"),
    nightly_after(
        1,
        [
            pytest.param({}, (EU, US), ("orders", "orders"), id="topics"),
            pytest.param({"logical.table": True}, (ALL, ALL), ("orders_1", "orders_2"), id="logical table"),
            pytest.param({}, (ALL, ALL), ("orders", "orders"), id="servers of a topic"),
            pytest.param({"route.by.field": "source.name"}, (ALL, ALL), ("orders", "orders"), id="routed by a field"),
        ],
    ),
)
def test_truncate_and_rows_of_two_sources_in_one_batch(
    spark: SparkSession, tmp_path: Path, rule: dict[str, Any], topics: tuple[str, str], names: tuple[str, str]
) -> None:
    shards, (eu, us) = Shards(tmp_path, spark, **rule), names
    marker = {"snapshot": "last"}
    events = [
        (topics[0], event("r", "eu", 10, 1, table=eu, **marker)),
        (topics[1], event("r", "us", 10, 1, table=us, **marker)),
        (topics[0], event("t", "eu", 50, table=eu)),
    ]
    batch: dict[str, list[dict[str, Any]]] = {}
    for topic, item in events:
        batch.setdefault(topic, []).append(item)
    shards.run(batch)
    assert shards.keys() == [("us", 1)]
    assert shards.dead_letters() == []
    with pytest.raises(ConfigError, match="several sources are written to it, and a snapshot of one does not cover"):
        shards.pipeline.resync(TABLE, now=True, spark=spark)


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("rule", "topics", "is_known"),
    nightly_after(
        1,
        [
            pytest.param({}, (EU,), True, id="one topic"),
            pytest.param({}, (EU, US), False, id="several topics"),
            pytest.param({"logical.table": True}, (EU,), False, id="logical table"),
        ],
    ),
)
def test_checkpoint_of_an_earlier_version_has_no_sources(
    spark: SparkSession, tmp_path: Path, rule: dict[str, Any], topics: tuple[str, ...], *, is_known: bool
) -> None:
    shards = Shards(tmp_path, spark, **rule)
    rows = {topic: [event("c", topic[:2], 10, 1)] for topic in topics}
    shards.run(rows)
    shutil.rmtree(tmp_path / "checkpoint/sources")
    shards.run({EU: [event("t", "eu", 50)]})
    assert shards.keys() == ([] if is_known else [(topic[:2], 1) for topic in topics])
    assert shards.dead_letters() == ([] if is_known else [(EU, "truncated-source")])
