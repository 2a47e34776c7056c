"""What a table has to be after a database's history went through the engine into a sink, however it arrived."""

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
    """The engine and the sink together."""

    @pytest.fixture
    def stream(self, sink: Sink, headrace_spark: SparkSession, tmp_path: Path) -> Stream:
        """A pipeline into the sink."""
        return Stream(sink, headrace_spark, tmp_path)

    @claims("upsert", "delete")
    def test_a_change_that_is_older_than_a_delete_changes_nothing(self, stream: Stream) -> None:
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
    def test_a_delete_may_come_before_its_row(self, stream: Stream) -> None:
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
    def test_a_row_that_is_inserted_after_its_delete_lives(self, stream: Stream) -> None:
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
    def test_a_history_ends_in_the_same_table_however_it_arrives(self, stream: Stream) -> None:
        chance = random.Random(7)  # noqa: S311 - the same history each time
        database = Database()
        for step in range(60):
            rows = database.tables[_TABLE]
            if rows and chance.random() < 0.3:
                database.delete(_TABLE, chance.choice(list(rows)))
                continue
            row = {"id": chance.randrange(12), "name": f"name {step}"}
            (database.update if row["id"] in rows else database.insert)(_TABLE, row)
        arrivals = [*database.log, *chance.choices(database.log, k=15)]
        chance.shuffle(arrivals)
        while arrivals:
            size = chance.randrange(5, 25)
            stream.apply(*arrivals[:size])
            arrivals = arrivals[size:]
            if chance.random() < 0.5:
                stream.restart()
                stream.apply_again()
        assert stream.rows(_TABLE) == database.rows(_TABLE)

    @claims("upsert", "delete", "schema_evolution")
    def test_a_value_that_an_update_leaves_out_stays(self, stream: Stream) -> None:
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
    def test_a_value_that_comes_later_than_an_update_that_leaves_it_out(self, stream: Stream) -> None:
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
    def test_a_column_that_comes_later_beside_a_value_that_is_left_out(self, stream: Stream) -> None:
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
    def test_a_table_that_was_emptied_stays_so(self, stream: Stream) -> None:
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
