"""Tables with a history: from events to versions in the tables of a pipeline, with late changes, deletes and restarts."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.bronze import write_lines
from tests.support.pipelines import TABLE_SINKS, pipeline, sink_block
from tests.support.tiers import nightly_after
from tests.support.version_model import Event, make_model, write_history

from headrace import HeadraceError, Pipeline
from headrace.engine.write.history_plan import version_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.one_spark]

TOPIC, TABLE, HISTORY = "shop.people", "shop.people", "shop.people_history"
#: Keys of the table whose versions are compared with the model, and batches of its changes.
KEYS, BATCHES = 40, 4
LEFT_OUT = "__debezium_unavailable_value"


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
    # The second truncate is late. Each one ends the version that was valid at its time.
    shop.run(event("t", 80, None), event("t", 65, None))
    ends = {30: 65, 70: 80}
    assert shop.versions(table) == [(key, start, end or ends[start]) for key, start, end, *_ in expected]
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


def write_table(chance: Random) -> tuple[list[Event], int]:
    """Return the changes of all keys, with a truncate in between, and the truncate's position."""
    events = [e for key in range(KEYS) for e in write_history(chance, key)]
    events = [replace(e, position=f"{int(e.position) * 100 + e.id + 1:06}") for e in events]
    truncate = 100 * chance.randrange(2, 7)
    for key in range(KEYS):
        before = [e for e in events if e.id == key and int(e.position) < truncate]
        if before and not before[-1].is_delete:
            # The next change of the key is an insert then: it has all values.
            after = [e for e in events if e.id == key and int(e.position) > truncate]
            if after and (after[0].is_left_out or after[0].is_delete):
                events = [e for e in events if e not in after]
            events.append(replace(before[-1], position=f"{truncate:06}", is_delete=True))
    return [replace(e, ms=int(e.position) * 1000) for e in events], truncate


def to_record(change: Event) -> dict[str, Any]:
    row = {"a": change.a, "b": LEFT_OUT if change.is_left_out else str(change.truth)}
    return event("d" if change.is_delete else "u", int(change.position), change.id, **row)


def stop_once(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Stop the next write of versions after the checkpoint has their changes and before the table has them; return the stops."""
    stops: list[str] = []
    name = "headrace.engine.write.version_writer.version_table"

    def stop(table: Any) -> Any:
        monkeypatch.setattr(name, version_table)
        stops.append(str(table))
        raise HeadraceError("stopped by the test", where="a write", fix="run again")

    monkeypatch.setattr(name, stop)
    return stops


def find_versions(events: Sequence[Event]) -> list[tuple[Any, ...]]:
    versions = make_model(events)
    return sorted(
        (key, start // 1000, None if end is None else end // 1000, a, str(b))
        for key, _, start, end, a, b, _ in versions
    )


@pytest.mark.nightly
@pytest.mark.parametrize("sink", [*TABLE_SINKS, "delta"])
@pytest.mark.parametrize("mode", ["history", "both"])
def test_versions_equal_the_model_over_runs(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, sink: str, mode: str
) -> None:
    chance = Random(f"{sink} {mode}")
    events, truncate = write_table(chance)
    batches: list[list[dict[str, Any]]] = [[] for _ in range(BATCHES)]
    for change in events:
        # A truncate is one event. Changes that arrive after it and are older are dropped, so it arrives in the last batch.
        for _ in range(int(int(change.position) != truncate) * (1 + (chance.random() < 0.2))):
            batches[chance.randrange(BATCHES)].append(to_record(change))
    batches[-1].append(event("t", truncate, None))
    shop = Shop(tmp_path, spark, sink_block(sink, tmp_path, mode=mode))
    for number, batch in enumerate(batches):
        chance.shuffle(batch)
        if number == 1:
            stops = stop_once(monkeypatch)
            with suppress(HeadraceError):  # A table that was set aside may catch up in the same run.
                shop.run(*batch)
            assert stops
            shop.pipeline.run(spark)
        else:
            shop.run(*batch)
    assert shop.versions(TABLE if mode == "history" else HISTORY, "a", "b") == find_versions(events)
