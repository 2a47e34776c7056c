"""Columns of topics are traced once, and again when they change or when an attempt has failed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from pyspark.sql.types import StringType, StructField, StructType

from headrace.engine.read.lineage_log import LineageLog
from headrace.sdk.changes import Changes


def make_changes(*columns: str, table: str | None = "shop.orders") -> Changes:
    """Return changes without Spark."""
    frame: Any = SimpleNamespace(
        schema=StructType([StructField(name, StringType()) for name in columns]), columns=columns
    )
    return Changes(cast("Any", frame), envelope=False, table=table)


def test_columns_are_traced_again_only_when_they_change() -> None:
    log, changes = LineageLog(), make_changes("id", "email")
    failed = log.trace("orders", changes)  # A transform fails after it.
    assert failed
    tracer = log.trace("orders", changes)
    assert tracer
    log.note(tracer, changes, None)
    assert log.trace("orders", changes) is None
    more = make_changes("id", "email", "name")
    tracer = log.trace("orders", more)
    assert tracer
    log.note(tracer, more, None)
    topics, _ = log.read()
    assert [list(trace.made) for trace in topics["shop.orders"]] == [["id", "email", "name"]]


def test_each_topic_and_table_is_traced() -> None:
    log = LineageLog()
    for topic, table in (("a", "shop.orders"), ("b", "shop.orders"), ("a", "shop.people")):
        changes = make_changes("id", table=table)
        tracer = log.trace(topic, changes)
        assert tracer
        log.note(tracer, changes, None)
    topics, _ = log.read()
    assert {table: [trace.topic for trace in traces] for table, traces in topics.items()} == {
        "shop.orders": ["a", "b"],
        "shop.people": ["a"],
    }


def test_changes_without_a_table_belong_to_the_table_of_the_topic_or_to_none() -> None:
    log, changes = LineageLog(), make_changes("id", table=None)
    tracer = log.trace("a", changes)
    assert tracer
    log.note(tracer, changes, None)
    assert log.read()[0] == {}
    tracer = log.trace("b", changes)
    assert tracer
    log.note(tracer, changes, "shop.orders")
    assert list(log.read()[0]) == ["shop.orders"]
