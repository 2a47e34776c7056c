"""Versions of rows, compared with a model in Python: random histories in random batches, late and repeated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import Phase, given, settings, strategies as st
from tests.support.version_model import Event, make_model, write_history

from headrace.sdk.changes import COMMITTED, DELETED, POSITION, UNAVAILABLE
from headrace.upsert.versions import (
    START,
    VERSION,
    arrange,
    prepare_changes,
    select_hidden,
    select_versions,
    union_columns,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.one_spark]

CHANGES = (
    f"id int, a int, b int, {COMMITTED} bigint, {DELETED} boolean, {POSITION} string, {UNAVAILABLE} struct<b: boolean>"
)
STORED = (
    "id int, a int, b int, valid_from timestamp, valid_to timestamp, is_current boolean, "
    f"{UNAVAILABLE} array<string>, {START} string, "
    f"{VERSION} struct<last: string, last_ms: bigint, ended: string, tracked: array<string>>, {POSITION} string"
)
KEYS, BATCHES = 150, 4


class Table:
    """Stored versions and remembered changes, which batches change like a sink and the checkpoint."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark
        self.rows: dict[tuple[int, str], dict[str, Any]] = {}
        self.remembered: DataFrame | None = None

    def read(self) -> DataFrame | None:
        rows = [tuple(row[name] for name in row) for row in self.rows.values()]
        return self.spark.createDataFrame(rows, STORED) if rows else None

    def apply(self, events: Sequence[Event], track: Sequence[str], now: int, *, crash: bool = False) -> int:
        """Apply a batch, and return the number of rows that were written. ``crash``: the table does not get it."""
        changes = prepare_changes(self.spark.createDataFrame([e.row for e in events], CHANGES), track)
        stored = self.read()
        schema = union_columns(changes, stored)
        changes = changes.select(*schema.names)
        lines = arrange(changes, self.remembered, stored, ["id"], ["b"]).localCheckpoint()
        hidden = select_hidden(lines)
        hidden = (self.remembered.unionByName(hidden) if self.remembered else hidden).localCheckpoint()
        assert hidden.count() == hidden.dropDuplicates(["id", POSITION]).count()
        self.remembered = hidden
        written = [row.asDict() for row in select_versions(lines, now).collect()]
        for row in () if crash else written:
            place = row["id"], row[START]
            assert row[POSITION] > self.rows.get(place, {POSITION: ""})[POSITION]
            if row.pop(DELETED):
                del self.rows[place]
            else:
                self.rows[place] = row
        return len(written)

    def versions(self) -> set[tuple[Any, ...]]:
        def millis(time: datetime | None) -> int | None:
            return None if time is None else round(time.timestamp() * 1000)

        return {
            (r["id"], r[START], millis(r["valid_from"]), millis(r["valid_to"]), r["a"], r["b"], r["is_current"])
            for r in self.rows.values()
        }


@pytest.mark.parametrize("track", [(), ("a",)], ids=["all columns", "one column"])
@settings(max_examples=1, phases=[Phase.generate])
@given(chance=st.randoms(use_true_random=False))
def test_versions_equal_the_model_in_any_order_of_arrival(
    spark: SparkSession, chance: Random, track: tuple[str, ...]
) -> None:
    events = [replace(e, track=track) for key in range(KEYS) for e in write_history(chance, key)]
    table = Table(spark)
    batches: list[list[Event]] = [[] for _ in range(BATCHES)]
    for event in events:
        for _ in range(1 + (chance.random() < 0.2)):
            batches[chance.randrange(BATCHES)].append(event)
    for number, batch in enumerate(batches):
        if number == 1:
            table.apply(batch, track, number, crash=True)
        table.apply(batch, track, number)
    assert table.apply(batches[0], track, BATCHES) == 0
    assert table.versions() == make_model(events)
