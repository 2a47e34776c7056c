"""Change feeds of tables: the changes of a pipeline's batches, with late changes, key changes, truncates and repeated batches."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.core.engine.write.test_history_tables import LEFT_OUT, TABLE, TOPIC, Shop, event
from tests.support.pipelines import TABLE_SINKS, sink_block
from tests.support.tiers import nightly_after

from headrace import ConfigError, HeadraceError, Pipeline
from headrace.engine.write import feed_writer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.one_spark]

Change = tuple[Any, ...]


def changes(shop: Shop, spark: SparkSession, after: int | None = None) -> list[Change]:
    """Return type, commit time in seconds since 1970, key and name of the changes in their order."""
    feed = shop.pipeline.read_feed(TABLE, after, spark=spark)
    rows = feed.orderBy("change_sequence", "id", feed.change_type.desc()).selectExpr(
        "change_type", "unix_seconds(change_time)", "id", "name"
    )
    return [tuple(row) for row in rows.collect()]


def last_sequence(shop: Shop, spark: SparkSession) -> int:
    """Return the token of a reader that has read all changes."""
    row = shop.pipeline.read_feed(TABLE, spark=spark).agg({"change_sequence": "max"}).first()
    assert row is not None
    return int(row[0])


@pytest.mark.parametrize("sink", nightly_after(1, [*TABLE_SINKS, "delta"]))
def test_feed_has_the_rows_before_and_after_each_change(tmp_path: Path, spark: SparkSession, sink: str) -> None:
    shop = Shop(tmp_path, spark, sink_block(sink, tmp_path, changes=True))
    shop.run(event("c", 10, 1, name="a", note="long"), event("c", 20, 2, name="b", note=None))
    first = [("insert", 10, 1, "a"), ("insert", 20, 2, "b")]
    assert changes(shop, spark) == first
    token = last_sequence(shop, spark)
    # Row 1: two changes of one batch are one change of the table. Row 2: late and repeated changes are none.
    shop.run(event("u", 30, 1, name="c"), event("u", 40, 1, name="d"), event("u", 15, 2, name="late"))
    shop.run(event("c", 20, 2, name="b"), event("d", 50, 2), event("d", 60, 3))
    shop.run(event("c", 70, 2, name="again", age=7), event("u", 80, 1, name="e", note=LEFT_OUT))
    later = [
        ("update_preimage", 40, 1, "a"),
        ("update_postimage", 40, 1, "d"),
        ("delete", 50, 2, "b"),
        ("update_preimage", 80, 1, "d"),
        ("update_postimage", 80, 1, "e"),
        ("insert", 70, 2, "again"),
    ]
    assert changes(shop, spark) == [*first, *later]
    assert changes(shop, spark, token) == later
    token = last_sequence(shop, spark)
    shop.run(event("t", 90, None))
    assert shop.rows() == []
    assert [change[0::2] for change in changes(shop, spark, token)] == [("delete", 1), ("delete", 2)]
    ages = shop.pipeline.read_feed(TABLE, spark=spark).where("age = 7").orderBy("change_sequence").collect()
    assert [row["change_type"] for row in ages] == ["insert", "delete"]


def test_old_changes_are_removed_and_their_reader_is_told(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed_writer, "_BATCHES_BETWEEN_REMOVALS", 2)
    settings = {"maintenance": {"history": "1 millisecond"}}
    without = {"iceberg": {"name": "without", "warehouse": str(tmp_path / "without")}}
    shop = Shop(tmp_path, spark, without, sink_block("iceberg", tmp_path, changes=True), **settings)
    with pytest.raises(ConfigError, match="has no changes yet"):
        shop.pipeline.read_feed(TABLE, spark=spark)
    shop.run(event("c", 10, 1, name="a"))
    token = last_sequence(shop, spark)
    shop.run(event("u", 20, 1, name="b"))
    newer = last_sequence(shop, spark)
    shop.run(event("u", 30, 1, name="c"))
    assert [change[1] for change in changes(shop, spark)] == [20, 20, 30, 30]
    assert [change[1] for change in changes(shop, spark, newer)] == [30, 30]
    assert changes(shop, spark, last_sequence(shop, spark)) == []
    with pytest.raises(ConfigError, match=f"the changes after {token} may have been removed"):
        shop.pipeline.read_feed(TABLE, token, spark=spark)
    stored = shop.pipeline.read(TABLE, spark=spark, own_columns=True)
    assert stored.columns == ["id", "name", "_headrace_position"]


def test_options_and_columns_that_a_feed_cannot_use(tmp_path: Path, spark: SparkSession) -> None:
    for mode in ("append", "history", "changelog"):
        with pytest.raises(ConfigError, match=f"keeps the changes of current rows, and `mode: {mode}` is set"):
            Shop(tmp_path, spark, sink_block("iceberg", tmp_path, mode=mode, changes=True)).pipeline.check()
    with pytest.raises(ConfigError, match="it keeps no current rows"):
        Shop(tmp_path, spark, {"files": {"path": str(tmp_path), "changes": True}}).pipeline.check()
    other = Shop(tmp_path, spark, sink_block("iceberg", tmp_path, changes=True))
    with pytest.raises(Exception, match="its rows have the column 'change_type', which a change feed adds"):
        other.run(event("c", 10, 1, change_type="x"))
    plain: Pipeline = Shop(tmp_path, spark, sink_block("iceberg", tmp_path)).pipeline
    with pytest.raises(ConfigError, match="keeps no changes"):
        plain.read_feed(TABLE, spark=spark)


@pytest.mark.parametrize("is_feed_first", [True, False])
def test_table_with_the_name_of_a_feed(tmp_path: Path, spark: SparkSession, *, is_feed_first: bool) -> None:
    tables = [{"source": TOPIC, "target": f"{TABLE}_changes", "key": ["id"]}]
    other = {"tables": tables, "checkpoint": str(tmp_path / "other")}
    shops = [
        Shop(tmp_path, spark, sink_block("iceberg", tmp_path, changes=True)),
        Shop(tmp_path, spark, sink_block("iceberg", tmp_path), **other),
    ]
    first, second = shops if is_feed_first else shops[::-1]
    first.run(event("c", 10, 1, name="a"))
    with pytest.raises(HeadraceError, match=r"is (the|not its) change feed"):
        second.pipeline.run(spark)
