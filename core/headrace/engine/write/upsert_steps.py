"""The steps of a table's part of a batch, from its changes to the rows that sinks are given.

Their order is what makes a table right. A truncate comes before all else, so that nothing older than it is carried, counted or
merged. Values go to new keys before a key is deduplicated, for they are changes of the new key. Deletes that were applied earlier
are looked at last, when one row is left of each key.

A step may drop rows and change values; it keeps DELETED, POSITION and the key. After ``deduplicate`` there is at most one
complete row per key, and at most one partial update beside it. What is durable is written before the tables by
``carry_values_to_new_keys``, so that a repeated batch finds it, and after the tables by ``TableState.deleted_keys.remember``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import reduce
from typing import TYPE_CHECKING

from headrace.engine.read.change_reader import drop_tombstone_rows
from headrace.engine.write.table_plan import TablePlan
from headrace.sdk.changes import (
    DELETED,
    ERROR,
    KEY_CHANGE_POSITION,
    NEW_KEY,
    OP,
    POSITION,
    RAW,
    TOMBSTONE,
    TOPIC,
    UNAVAILABLE,
)
from headrace.sdk.positions import in_epoch, is_tombstone
from headrace.sdk.sink import OPERATION, TableMode
from headrace.spark.columns import quote_name, select_texts
from headrace.upsert.deduplicate import latest_per_key
from headrace.upsert.fill_unavailable import fill_from_older
from headrace.upsert.table_state import TableState
from headrace.upsert.unavailable import name_unavailable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def accept_rows(changes: DataFrame, table_plan: TablePlan) -> DataFrame:
    """The changes that are rows: the event's columns, DELETED, POSITION in the batch's epoch, and what later steps need.

    Keeps every change without an ERROR. The rest is seen to by ``Rejects``.
    """
    from pyspark.sql import functions as F

    names = list(table_plan.columns)
    positions = [POSITION]
    if UNAVAILABLE in changes.columns:
        names.append(UNAVAILABLE)
        if table_plan.has_key_changes:
            names.append(NEW_KEY)
            positions.append(KEY_CHANGE_POSITION)
    if "changelog" in table_plan.modes.values() and OPERATION not in table_plan.columns:
        names.append(OP)
    if set(table_plan.modes.values()) - {"upsert"}:
        names.append(TOPIC)
    names += [name for name in changes.columns if name in table_plan.record_columns - {TOPIC}]
    marks = {TOMBSTONE: F.col(RAW).isNull()} if table_plan.keeps_tombstones else {}
    marks |= {name: in_epoch(F.col(name), table_plan.marks.epoch) for name in positions}
    rows = changes.where(F.col(ERROR).isNull()).withColumns(marks)
    return select_texts(
        rows,
        [
            quote_name(name)
            for name in [*names, *([TOMBSTONE] if table_plan.keeps_tombstones else []), DELETED, *positions]
        ],
    )


def changes_alone(rows: DataFrame, table_plan: TablePlan) -> DataFrame:
    """The rows without tombstones, which no table that is upserted is given."""
    return drop_tombstone_rows(rows) if table_plan.has_tombstones else rows


def keep_for_upsert(rows: DataFrame, table_plan: TablePlan) -> DataFrame:
    """The accepted rows without what is there for sinks that append: columns of records, and tombstones that remove no row."""
    rows = rows.drop(*table_plan.record_columns)
    return drop_tombstone_rows(rows) if table_plan.keeps_tombstones and not table_plan.has_tombstones else rows


def tombstones_alone(rows: DataFrame) -> DataFrame:
    """Of the deduplicated rows the tombstones: those of keys of which the batch has nothing else."""
    from pyspark.sql import functions as F

    return rows.where(is_tombstone(F.col(POSITION)))


def append_rows(rows: DataFrame, table_plan: TablePlan) -> DataFrame:
    """The accepted rows as tables that are appended to keep them: unavailable values are null, and named where there is room."""
    return _name_records(_without_key_changes(_appendable(rows, table_plan), table_plan), table_plan).drop(OP)


def changelog_rows(rows: DataFrame, table_plan: TablePlan) -> DataFrame:
    """The accepted rows as a changelog keeps them: with what each change did, and a delete is a row like any other."""
    from pyspark.sql import functions as F

    rows = _name_records(_without_key_changes(_appendable(rows, table_plan), table_plan), table_plan)
    return rows.withColumnRenamed(OP, OPERATION).withColumn(DELETED, F.lit(False))


def drop_before_truncate(rows: DataFrame, state: TableState) -> DataFrame:
    """The rows that came after the table's last truncate, and tombstones. Needs POSITION in the batch's epoch."""
    return state.truncate.drop_older(rows.drop(OP, TOPIC))


@contextmanager
def carry_values_to_new_keys(
    rows: DataFrame, table_plan: TablePlan, state: TableState, read_stored: Callable[[], DataFrame | None]
) -> Iterator[DataFrame]:
    """The rows, and the values that rows whose primary key changed take along, as partial updates of their new keys.

    Needs UNAVAILABLE, NEW_KEY and KEY_CHANGE_POSITION, and drops the last two. ``read_stored``: the table that has the old rows.
    """
    if not table_plan.has_key_changes:
        yield rows
        return
    with state.key_changes.carry_values(rows, table_plan.table.key, table_plan.marks.batch, read_stored) as carried:
        yield carried


def deduplicate(rows: DataFrame, table_plan: TablePlan) -> DataFrame:
    """The latest change of each key, its unavailable values filled from older changes of the batch.

    A tombstone is left where the batch has nothing else of its key.
    """
    return (fill_from_older if table_plan.unavailable else latest_per_key)(rows, table_plan.table.key)


def drop_late_after_delete(
    rows: DataFrame, table_plan: TablePlan, state: TableState
) -> AbstractContextManager[DataFrame]:
    """The rows, but those that are older than a delete that an earlier batch applied."""
    return (
        state.deleted_keys.drop_late(rows, table_plan.table.key) if table_plan.remembers_deletes else nullcontext(rows)
    )


@contextmanager
def cache_rows(frames: Mapping[TableMode, DataFrame]) -> Iterator[None]:
    """The frames are read now, once, and kept meanwhile."""
    cached = [frame.persist() for frame in frames.values()]
    try:
        reduce(lambda a, b: a.unionByName(b), [f.agg({"*": "count"}) for f in cached]).collect()
        yield
    finally:
        for frame in cached:
            frame.unpersist()


def _appendable(rows: DataFrame, table_plan: TablePlan) -> DataFrame:
    return rows if table_plan.keeps_tombstones else changes_alone(rows, table_plan)


def _without_key_changes(rows: DataFrame, table_plan: TablePlan) -> DataFrame:
    """The rows without what only upserts need; names of unavailable values stay where every table takes new columns."""
    if not table_plan.unavailable:
        return rows
    takes_columns = all(s.capabilities.schema_evolution for s, mode in table_plan.modes.items() if mode != "upsert")
    rows = name_unavailable(rows) if takes_columns else rows.drop(UNAVAILABLE)
    return rows.drop(NEW_KEY, KEY_CHANGE_POSITION)


def _name_records(rows: DataFrame, table_plan: TablePlan) -> DataFrame:
    """The rows with positions that no other record of the whole source has: a row that is appended has no other name.

    A position orders the changes of one key, and two topics may have records of one position. Drops TOPIC, unless a sink
    wants it.
    """
    from pyspark.sql import functions as F

    rows = rows.withColumn(POSITION, F.concat(POSITION, F.lit("/"), TOPIC))
    return rows if TOPIC in table_plan.record_columns else rows.drop(TOPIC)
