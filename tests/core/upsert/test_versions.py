"""Versions of rows, compared with a model in Python: random histories in random batches, late and repeated."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import Phase, given, settings, strategies as st

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


@dataclass(frozen=True)
class Event:
    """Change of a key. ``b`` is None in the event if it is left out; ``truth`` is the database's value."""

    id: int
    position: str
    ms: int
    a: int = 0
    b: int | None = 0
    truth: int | None = 0
    is_delete: bool = False
    is_left_out: bool = False
    track: tuple[str, ...] = ()

    @property
    def row(self) -> tuple[Any, ...]:
        return (self.id, self.a, self.b, self.ms, self.is_delete, self.position, (self.is_left_out,))


def write_history(chance: Random, key: int) -> list[Event]:
    """Return the changes of one key as a database makes them: inserts, updates, deletes and inserts after them."""
    events: list[Event] = []
    row: tuple[int, int] | None = None
    for number in range(chance.randrange(1, 9)):
        at = Event(key, f"{number:02}", 1000 * number + key)
        if row is not None and chance.random() < 0.25:
            row, event = None, replace(at, a=-1, b=None, truth=None, is_delete=True)
        else:
            is_left_out = row is not None and chance.random() < 0.3
            b = row[1] if row is not None and is_left_out else chance.randrange(3)
            row = (chance.randrange(2), b)
            event = replace(at, a=row[0], b=None if is_left_out else b, truth=b, is_left_out=is_left_out)
        events.append(event)
    return events


def make_model(events: Iterable[Event]) -> set[tuple[Any, ...]]:
    """Return the versions: start, end, their times, and the values."""
    by_key: dict[int, list[Event]] = defaultdict(list)
    for event in sorted(events, key=lambda e: e.position):
        by_key[event.id].append(event)
    versions = set()
    for key, changes in by_key.items():
        runs: list[list[Event]] = []
        for previous, event in zip([None, *changes], changes, strict=False):
            if event.is_delete:
                continue
            names = event.track or ("a", "truth")
            if previous is None or previous.is_delete or any(getattr(previous, n) != getattr(event, n) for n in names):
                runs.append([])
            runs[-1].append(event)
        for run in runs:
            after = next((e for e in changes if e.position > run[-1].position), None)
            start, last = run[0], run[-1]
            versions.add((key, start.position, start.ms, after and after.ms, last.a, last.truth, after is None))
    return versions


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
