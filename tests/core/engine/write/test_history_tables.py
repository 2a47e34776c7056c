"""Tables with a history: from events to versions in the tables of a pipeline, with late changes, deletes and restarts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.bronze import write_lines
from tests.support.pipelines import TABLE_SINKS, pipeline, sink_block
from tests.support.tiers import nightly_after

from headrace import HeadraceError, Pipeline

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.one_spark]

TOPIC, TABLE, HISTORY = "shop.people", "shop.people", "shop.people_history"


def event(op: str, at: int, key: int | None, **row: Any) -> dict[str, Any]:
    """Return an event of the transaction that was committed ``at`` seconds after 1970."""
    source = {"connector": "postgresql", "lsn": at, "sequence": None, "txId": at, "ts_ms": at * 1000}
    image = None if key is None else {"id": key, **row}
    images = {"before": image, "after": None} if op in ("d", "t") else {"before": None, "after": image}
    return {**images, "op": op, "ts_ms": at * 1000, "source": source}


class Shop:
    """A pipeline of one table into several sinks."""

    def __init__(self, folder: Path, spark: SparkSession, *sinks: dict[str, Any], **changed: Any) -> None:
        self._spark, self._folder = spark, folder / "in" / TOPIC
        source = {"files": {"path": str(folder / "in"), "format": "json"}}
        tables = [{"source": TOPIC, "key": ["id"]}]
        self.pipeline: Pipeline = pipeline(
            folder, **{"source": source, "tables": tables, "sinks": list(sinks), **changed}
        )

    def run(self, *events: dict[str, Any]) -> None:
        """Apply events in one batch of a new run."""
        number = len(list(self._folder.glob("*.json")))
        write_lines(self._folder / f"{TOPIC}+0+{number * 100:010d}.json", events)
        self.pipeline.run(self._spark)

    def versions(self, table: str, *columns: str) -> list[tuple[Any, ...]]:
        """Return key, start and end in seconds since 1970, and columns of the versions."""
        rows = self.pipeline.read(table, spark=self._spark)
        periods = ["unix_seconds(valid_from)", "unix_seconds(valid_to)"]
        found = [tuple(row) for row in rows.selectExpr("id", *periods, *columns, "is_current").collect()]
        assert all(row[-1] is (row[2] is None) for row in found)
        return sorted(row[:-1] for row in found)

    def rows(self) -> list[tuple[Any, ...]]:
        return sorted(tuple(row) for row in self.pipeline.read(TABLE, spark=self._spark).collect())


@pytest.mark.parametrize("sink", nightly_after(1, TABLE_SINKS))
def test_history_has_each_version_of_each_row(tmp_path: Path, spark: SparkSession, sink: str) -> None:
    mode, table = {"iceberg": ("both", HISTORY), "hudi": ("history", TABLE)}[sink]
    shop = Shop(tmp_path, spark, sink_block(sink, tmp_path, mode=mode))
    shop.run(event("c", 10, 1, name="a"), event("c", 20, 2, name="b"), event("u", 30, 1, name="c"))
    late, repeated = event("u", 25, 1, name="late"), event("c", 20, 2, name="b")
    shop.run(event("d", 40, 2), late, repeated, event("d", 60, 3))
    # The row 3 was inserted before its delete, which came first. The row 2 is inserted again.
    shop.run(event("c", 50, 3, name="short"), event("c", 70, 2, name="again", age=7))
    expected = [
        (1, 10, 25, "a", None),
        (1, 25, 30, "late", None),
        (1, 30, None, "c", None),
        (2, 20, 40, "b", None),
        (2, 70, None, "again", 7),
        (3, 50, 60, "short", None),
    ]
    assert shop.versions(table, "name", "age") == expected
    assert mode == "history" or shop.rows() == [(1, "c", None), (2, "again", 7)]
    current = shop.pipeline.read(table, spark=spark, current=True)
    assert sorted(map(tuple, current.collect())) == [(1, "c", None), (2, "again", 7)]
    shop.run(event("t", 80, None))
    assert [end is not None for _, _, end in shop.versions(table)] == [True] * len(expected)
    assert mode == "history" or shop.rows() == []


def test_table_of_another_mode_is_rejected(tmp_path: Path, spark: SparkSession) -> None:
    shop = Shop(tmp_path, spark, sink_block("iceberg", tmp_path))
    shop.run(event("c", 10, 1, name="a"))
    histories = [sink_block("iceberg", tmp_path, mode="history")]
    with pytest.raises(HeadraceError, match="was created in mode upsert, and `mode: history` is set now"):
        Shop(tmp_path, spark, *histories).run(event("u", 20, 1, name="b"))
    other = {"checkpoint": str(tmp_path / "other")}
    with pytest.raises(HeadraceError, match="has rows that are no versions"):
        Shop(tmp_path, spark, *histories, **other).pipeline.run(spark)
