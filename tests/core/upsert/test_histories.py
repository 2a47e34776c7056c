"""Random histories that arrive shuffled, repeated, in several batches and with restarts.

After every history, the tables equal the database.
"""

from __future__ import annotations

import os
import tempfile
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any
from unittest import mock

import pyspark
import pytest
from hypothesis import HealthCheck, Phase, given, settings, strategies as st
from tests.support.memory_sink import MemorySink

from headrace.sdk.sink import Sink
from headrace.testing._internal.stream import Change, Database, Stream
from headrace_sinks.delta import DeltaSink
from headrace_sinks.hudi import HudiSink
from headrace_sinks.iceberg import IcebergSink, row_delta

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(1800)]

TABLES = ("kit.people", "kit.places")
KEYS = range(4)
#: Partition column of some tables. Rows often move between partitions.
PARTITION = "nook"
#: Columns that are added later.
ADDED = ("integer", "number", "title")


class BetweenBatches(Enum):
    """Event between two batches."""

    RESTART = auto()
    MAINTENANCE = auto()


@dataclass(frozen=True)
class History:
    """Changes of a database, and the batches in which they arrive, with the events between them."""

    database: Database
    batches: list[list[Change] | BetweenBatches]


@dataclass(frozen=True)
class KeyChanges:
    """Share of key changes among the changes, and whether they may omit values."""

    share: float
    omit_values: bool


@st.composite
def histories(draw: st.DrawFn) -> History:
    chance = draw(st.randoms(use_true_random=False))
    database, columns = Database(), {table: ["name", "text", PARTITION] for table in TABLES}
    tables = TABLES[: draw(st.sampled_from([1, 1, 2]))]
    # A key change takes its omitted values from another key. The changes of each key must then arrive in order.
    shuffled, ordered = draw(st.sampled_from([(False, True), (True, True), (True, False)]))
    key_changes = KeyChanges(draw(st.sampled_from([0.05, 0.3])), omit_values=ordered)
    for step in range(draw(st.integers(5, 40))):
        _step(database, chance.choice(tables), columns, chance, step, key_changes)
    arrives = list(database.log)
    if shuffled:
        arrives = _shuffle_by_key(arrives, chance) if ordered else chance.sample(arrives, len(arrives))
    for change in chance.choices(arrives, k=draw(st.integers(0, 10))) if arrives else ():
        arrives.insert(chance.randint(arrives.index(change) + 1 if ordered else 0, len(arrives)), change)
    batches: list[list[Change] | BetweenBatches] = []
    largest = draw(st.sampled_from([5, 24, 24]))
    while arrives:
        size = chance.randint(largest // 6 + 1, largest)
        batches.append(arrives[:size])
        arrives = arrives[size:]
        batches += [event for event in BetweenBatches if chance.random() < 0.3]
    return History(database, batches)


def _shuffle_by_key(changes: Sequence[Change], chance: Random) -> list[Change]:
    """Shuffle the changes, but keep the order per key, like the partitions of a topic."""
    keys = [(change.table, change.key) for change in changes]
    left = {key: [c for c in changes if (c.table, c.key) == key] for key in keys}
    return [left[key].pop(0) for key in chance.sample(keys, len(keys))]


def _step(
    database: Database, table: str, columns: dict[str, list[str]], chance: Random, step: int, key_changes: KeyChanges
) -> None:
    rows, names = database.tables[table], columns[table]
    key = chance.choice(KEYS)
    number = step if chance.random() < 0.7 else 2**40 + step
    value = {name: f"{name} {step}" if name[0] in "nt" else number for name in names} | {PARTITION: f"nook {step % 3}"}
    dice = chance.random()
    current = rows.get(key, {})
    left_out = [name for name in names if name[0] == "t" and name in current and chance.random() < 0.6]
    if key not in rows:
        database.insert(table, {"id": key, **value})
    elif dice < 0.2:
        database.delete(table, key)
    elif dice < 0.25:
        database.snapshot(table)
    elif dice < 0.3 and (new := [name for name in ADDED if name not in names]):
        names.append(chance.choice(new))
    elif dice < 0.31 and (old := [name for name in ADDED if name in names]):
        names.remove(chance.choice(old))
    elif dice < 0.33:
        database.truncate(table)
    elif dice < 0.33 + key_changes.share and (free := [k for k in KEYS if k not in rows]):
        database.rekey(table, key, chance.choice(free), left_out if key_changes.omit_values else ())
    else:
        parts = {name: inner for name, inner in value.items() if name not in left_out}
        database.update(table, {"id": key, **parts}, unavailable=left_out)


@pytest.mark.one_spark
def test_column_is_unavailable_before_the_table_contains_it(spark: SparkSession, tmp_path: Path) -> None:
    database = Database()
    database.insert(TABLES[0], {"id": 1, "name": "a", "text": "x"})
    database.update(TABLES[0], {"id": 1, "name": "b", "text": "x", "title": "new"})
    database.update(TABLES[0], {"id": 1, "name": "c"}, unavailable=["text", "title"])
    insert, parts, left_out = database.log
    stream = Stream(IcebergSink(warehouse=str(tmp_path / "lake")), spark, tmp_path)
    for change in (insert, left_out, parts, insert):
        stream.apply(change)
        stream.restart()
    assert stream.rows(TABLES[0]) == database.rows(TABLES[0])


def check(history: History, sink: Sink, spark: SparkSession, folder: Path) -> None:
    stream = Stream(sink, spark, folder)
    for batch in history.batches:
        if batch is BetweenBatches.RESTART:
            stream.restart()
            stream.apply_again()
        elif batch is BetweenBatches.MAINTENANCE:
            stream.maintain(*TABLES)
        else:
            stream.apply(*batch)
    for table in TABLES:
        assert _drop_nulls(stream.rows(table)) == _drop_nulls(history.database.rows(table))


def _drop_nulls(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Remove nulls, because columns that were added later are null in older rows."""
    return [{name: value for name, value in row.items() if value is not None} for row in rows]


#: Factor of the number of histories. Workers may share them (--dist load).
PARTS = os.environ.get("HEADRACE_HISTORIES")
repeated = pytest.mark.parametrize("part", range(int(PARTS or "1")))


def examples(count: int) -> Callable[[Any], Any]:
    """Return settings for ``count`` histories. Shrinking would take minutes, and the histories are small."""
    return settings(
        max_examples=count,
        deadline=None,
        derandomize=False,  # the CI profile would derandomize, and every part would run the same histories
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )


#: Hudi does not support Spark 4, and the sink in memory depends only on the engine.
SPARK_4 = pyspark.__version__.startswith("4.")


@pytest.mark.one_spark
@repeated
@examples(6 if PARTS else 3)
@given(history=histories())
def test_history_in_memory(spark: SparkSession, part: int, history: History) -> None:
    with tempfile.TemporaryDirectory() as folder:
        check(history, MemorySink(store=uuid.uuid4().hex), spark, Path(folder))


@pytest.mark.nightly
@repeated
@examples(1 if SPARK_4 else 2)
@given(
    history=histories(),
    options=st.sampled_from(
        [
            {"readers": ["spark"]},  # deletes by key
            {},
            {"partition.by": {"*": [PARTITION]}},
            {"table.type": "copy-on-write"},
        ]
    ),
    many=st.sampled_from([1, 1000]),
)
def test_history_in_iceberg(
    spark: SparkSession, part: int, history: History, options: dict[str, Any], many: int
) -> None:
    """``many`` is the number of columns from which rows are replaced by location instead of MERGE."""
    with tempfile.TemporaryDirectory() as folder, mock.patch.object(row_delta, "_MANY_COLUMNS", many):
        check(history, IcebergSink({"warehouse": f"{folder}/lake", **options}), spark, Path(folder))


@pytest.mark.nightly
@repeated
@examples(1)
@given(
    history=histories(),
    options=st.sampled_from(
        [{}, {"delta.enableDeletionVectors": "false"}, {"partition.by": {"*": [PARTITION]}}, {"readers": ["athena"]}]
    ),
)
def test_history_in_delta(spark: SparkSession, part: int, history: History, options: dict[str, Any]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        check(history, DeltaSink({"path": f"{folder}/lake", **options}), spark, Path(folder))


if not SPARK_4:

    @pytest.mark.nightly
    @repeated
    @pytest.mark.parametrize("kind", ["MERGE_ON_READ", "COPY_ON_WRITE"])
    @examples(1)
    @given(history=histories(), partitioned=st.booleans())
    def test_history_in_hudi(spark: SparkSession, kind: str, part: int, history: History, partitioned: bool) -> None:
        options = {"hoodie.datasource.write.partitionpath.field": PARTITION} if partitioned else {}
        with tempfile.TemporaryDirectory() as folder:
            sink = HudiSink({"path": f"{folder}/lake", "table.type": kind, **options})
            check(history, sink, spark, Path(folder))
