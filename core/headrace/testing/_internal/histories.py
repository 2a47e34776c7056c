"""Tests of a sink with the engine: histories of a database that arrive in any order."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from headrace.sdk.sink import Sink
from headrace.testing._internal.claims import claims
from headrace.testing._internal.stream import Database, Stream

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_TABLE = "kit.people"


class HistoryConformance:
    """Tests of the sink together with the engine."""

    @pytest.fixture
    def stream(self, sink: Sink, headrace_spark: SparkSession, tmp_path: Path) -> Stream:
        """Return a pipeline into the sink."""
        return Stream(sink, headrace_spark, tmp_path)

    @claims("upsert", "delete")
    def test_change_older_than_a_delete_is_ignored(self, stream: Stream) -> None:
        database = Database()
        database.insert(_TABLE, {"id": 1, "name": "a"})
        database.update(_TABLE, {"id": 1, "name": "b"})
        database.delete(_TABLE, 1)
        database.insert(_TABLE, {"id": 2, "name": "c"})
        insert, update, delete, other = database.log
        stream.apply(insert, other)
        stream.apply(delete)
        stream.apply(update)
        assert stream.rows(_TABLE) == [{"id": 2, "name": "c"}]
        stream.restart()
        stream.apply(insert, update)
        assert stream.rows(_TABLE) == [{"id": 2, "name": "c"}]

    @claims("upsert", "delete")
    def test_delete_before_its_insert_removes_the_row(self, stream: Stream) -> None:
        database = Database()
        database.insert(_TABLE, {"id": 1, "name": "a"})
        database.insert(_TABLE, {"id": 2, "name": "b"})
        database.delete(_TABLE, 1)
        first, second, delete = database.log
        stream.apply(second)
        stream.apply(delete)
        stream.apply(first)
        assert stream.rows(_TABLE) == [{"id": 2, "name": "b"}]

    @claims("upsert", "delete")
    def test_insert_after_a_delete_restores_the_row(self, stream: Stream) -> None:
        database = Database()
        database.insert(_TABLE, {"id": 1, "name": "a"})
        database.delete(_TABLE, 1)
        database.insert(_TABLE, {"id": 1, "name": "b"})
        first, delete, again = database.log
        stream.apply(first, delete)
        stream.apply(again)
        stream.apply(first)
        assert stream.rows(_TABLE) == [{"id": 1, "name": "b"}]

    @claims("upsert", "delete")
    def test_history_in_any_order_yields_the_same_table(self, stream: Stream) -> None:
        rng = random.Random(7)  # noqa: S311 - a fixed history
        database = Database()
        for step in range(60):
            rows = database.tables[_TABLE]
            if rows and rng.random() < 0.3:
                database.delete(_TABLE, rng.choice(list(rows)))
                continue
            row = {"id": rng.randrange(12), "name": f"name {step}"}
            (database.update if row["id"] in rows else database.insert)(_TABLE, row)
        arrivals = [*database.log, *rng.choices(database.log, k=15)]
        rng.shuffle(arrivals)
        while arrivals:
            size = rng.randrange(5, 25)
            stream.apply(*arrivals[:size])
            arrivals = arrivals[size:]
            if rng.random() < 0.5:
                stream.restart()
                stream.apply_again()
        assert stream.rows(_TABLE) == database.rows(_TABLE)

    @claims("upsert", "delete", "schema_evolution")
    def test_unavailable_value_keeps_the_stored_value(self, stream: Stream) -> None:
        database = Database()
        database.insert(_TABLE, {"id": 1, "name": "a", "text": "long"})
        database.insert(_TABLE, {"id": 2, "name": "b", "text": "longer"})
        database.update(_TABLE, {"id": 1, "name": "c"}, unavailable=["text"])
        database.update(_TABLE, {"id": 2, "name": "d", "text": "longest"})
        database.update(_TABLE, {"id": 2, "name": "e"}, unavailable=["text"])
        *inserts, first, second, third = database.log
        stream.apply(*inserts)
        stream.apply(first, third, second)
        assert stream.rows(_TABLE) == database.rows(_TABLE)
        stream.apply_again()
        assert stream.rows(_TABLE) == database.rows(_TABLE)

    @claims("upsert", "delete", "schema_evolution")
    def test_late_value_fills_an_earlier_unavailable_value(self, stream: Stream) -> None:
        database = Database()
        database.insert(_TABLE, {"id": 1, "name": "a", "text": "old"})
        database.update(_TABLE, {"id": 1, "name": "b", "text": "new"})
        database.update(_TABLE, {"id": 1, "name": "c"}, unavailable=["text"])
        insert, update, partial = database.log
        stream.apply(partial)
        assert stream.rows(_TABLE) == [{"id": 1, "name": "c", "text": None}]
        stream.restart()
        stream.apply(insert)
        assert stream.rows(_TABLE) == [{"id": 1, "name": "c", "text": "old"}]
        stream.apply(update)
        assert stream.rows(_TABLE) == database.rows(_TABLE)
        stream.apply(insert, partial)
        assert stream.rows(_TABLE) == database.rows(_TABLE)

    @claims("upsert", "delete", "schema_evolution")
    def test_new_column_with_an_unavailable_value_is_added(self, stream: Stream) -> None:
        database = Database()
        database.insert(_TABLE, {"id": 1, "name": "a", "text": "long"})
        database.update(_TABLE, {"id": 1, "name": "b"}, unavailable=["text"])
        for change in database.log:
            stream.apply(change)
        database.update(_TABLE, {"id": 1, "name": "c", "title": "new"}, unavailable=["text"])
        stream.apply(database.log[-1])
        assert stream.rows(_TABLE) == database.rows(_TABLE)
        database.update(_TABLE, {"id": 1, "name": "d"}, unavailable=["text", "title"])
        stream.apply(database.log[-1])
        assert stream.rows(_TABLE) == database.rows(_TABLE)

    @claims("upsert", "delete")
    def test_rows_that_the_source_no_longer_has_are_removed(self, stream: Stream) -> None:
        database = Database()
        for key in (1, 2, 3):
            database.insert(_TABLE, {"id": key, "name": "a"})
        stream.apply(*database.log)
        database.update(_TABLE, {"id": 2, "name": "b"})
        database.insert(_TABLE, {"id": 4, "name": "c"})
        *_, update, insert = database.log
        del database.tables[_TABLE][1], database.tables[_TABLE][3]  # without a change
        stream.apply(update, current={_TABLE: database.rows(_TABLE)})
        assert stream.rows(_TABLE) == [{"id": 2, "name": "b"}]
        stream.restart()
        stream.apply_again()
        assert stream.rows(_TABLE) == [{"id": 2, "name": "b"}]
        database.insert(_TABLE, {"id": 3, "name": "d"})
        stream.apply(insert, database.log[-1])
        stream.apply(current={_TABLE: database.rows(_TABLE)})
        assert stream.rows(_TABLE) == database.rows(_TABLE)
        stream.apply(current={_TABLE: []})
        assert stream.rows(_TABLE) == []

    @claims("upsert", "delete")
    def test_truncated_table_rejects_older_rows(self, stream: Stream) -> None:
        database = Database()
        database.insert(_TABLE, {"id": 1, "name": "a"})
        database.insert(_TABLE, {"id": 2, "name": "b"})
        database.truncate(_TABLE)
        database.insert(_TABLE, {"id": 2, "name": "c"})
        first, second, truncate, third = database.log
        stream.apply(first)
        stream.apply(third, truncate)
        assert stream.rows(_TABLE) == [{"id": 2, "name": "c"}]
        stream.apply_again()
        stream.restart()
        stream.apply(second, first)
        assert stream.rows(_TABLE) == [{"id": 2, "name": "c"}]
