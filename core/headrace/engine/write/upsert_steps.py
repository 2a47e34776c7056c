"""Steps of a table's part of a batch, from its changes to the rows for its sinks.

Correctness depends on their order. The truncate comes first, so that nothing older is carried, counted or merged. Values are
carried to new keys before deduplication, because they are changes of the new key. Deletes of earlier batches come last, when one
row is left of each key.

A step may drop rows and change values; it keeps DELETED, POSITION and the key. After ``deduplicate`` there is at most one complete
row per key, and at most one partial update in addition. ``carry_values_to_new_keys`` stores its state before the tables are
written, so that a repeated batch finds it; ``TableState.deleted_keys.remember`` stores it after the tables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import reduce
from typing import TYPE_CHECKING

from headrace.engine.read.change_reader import drop_tombstone_rows
from headrace.engine.read.topic_splitter import PART
from headrace.engine.write.history_plan import KEYED
from headrace.engine.write.table_plan import TablePlan
from headrace.sdk.changes import (
    COMMITTED,
    DELETED,
    ERROR,
    KEY_CHANGE_POSITION,
    NEW_KEY,
    OP,
    POSITION,
    RAW,
    TIMESTAMP,
    TOMBSTONE,
    TOPIC,
    UNAVAILABLE,
)
from headrace.sdk.positions import in_epoch, is_tombstone
from headrace.sdk.sink import OPERATION, TableMode
from headrace.spark.columns import quote_name, select_texts
from headrace.upsert.deduplicate import latest_per_key
from headrace.upsert.fill_unavailable import fill_from_older
from headrace.upsert.table_sources import SOURCE
from headrace.upsert.table_state import TableState
from headrace.upsert.unavailable import name_unavailable

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def accept_rows(changes: DataFrame, table_plan: TablePlan) -> DataFrame:
    """Return the changes that are rows: the event's columns, DELETED, POSITION and what later steps need.

    POSITION is in the batch's epoch. Every change without an ERROR is kept. ``Rejects`` handles the others.
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
    if set(table_plan.modes.values()) - {*KEYED}:
        names.append(TOPIC)
    if table_plan.upsert_sinks:
        names.append(SOURCE)
    names += [name for name in changes.columns if name in table_plan.record_columns - {TOPIC}]
    if TOPIC in table_plan.record_columns:
        names.append(PART)
    marks = {TOMBSTONE: F.col(RAW).isNull()} if table_plan.keeps_tombstones else {}
    if table_plan.needs_commit_times:
        names.append(COMMITTED)
        marks[COMMITTED] = committed_or_recorded(changes)
    marks |= {name: in_epoch(F.col(name), table_plan.marks.epoch) for name in positions}
    rows = changes.where(F.col(ERROR).isNull()).withColumns(marks)
    return select_texts(
        rows,
        [
            quote_name(name)
            for name in [*names, *([TOMBSTONE] if table_plan.keeps_tombstones else []), DELETED, *positions]
        ],
    )


def committed_or_recorded(changes: DataFrame) -> Column:
    """Return the commit time of changes, or else the time of their record: milliseconds since 1970."""
    from pyspark.sql import functions as F

    return F.coalesce(COMMITTED, F.unix_millis(TIMESTAMP)) if TIMESTAMP in changes.columns else F.col(COMMITTED)


def exclude_tombstones(rows: DataFrame, table_plan: TablePlan) -> DataFrame:
    """Drop tombstones, which upserted tables do not store."""
    return drop_tombstone_rows(rows) if table_plan.has_tombstones else rows


def keep_for_upsert(rows: DataFrame, table_plan: TablePlan) -> DataFrame:
    """Drop the columns and tombstones that only append sinks need."""
    rows = rows.drop(PART, *table_plan.record_columns)
    return drop_tombstone_rows(rows) if table_plan.keeps_tombstones and not table_plan.has_tombstones else rows


def select_tombstones(rows: DataFrame) -> DataFrame:
    """Return the tombstones of deduplicated rows: those of keys without another change in the batch."""
    from pyspark.sql import functions as F

    return rows.where(is_tombstone(F.col(POSITION)))


def append_rows(rows: DataFrame, table_plan: TablePlan) -> DataFrame:
    """Return the accepted rows for append tables.

    Unavailable values are null, and listed. No envelope is DELETED: an event removes no row.
    """
    from pyspark.sql import functions as F

    rows = _name_records(_without_key_changes(_appendable(rows, table_plan), table_plan), table_plan).drop(OP, SOURCE)
    return rows.withColumn(DELETED, F.lit(False)) if table_plan.has_envelopes else rows


def changelog_rows(rows: DataFrame, table_plan: TablePlan) -> DataFrame:
    """Return the accepted rows for a changelog: with the operation of each change; a delete is a row like any other."""
    from pyspark.sql import functions as F

    rows = _name_records(_without_key_changes(_appendable(rows, table_plan), table_plan), table_plan)
    return rows.withColumnRenamed(OP, OPERATION).withColumn(DELETED, F.lit(False)).drop(SOURCE)


def drop_before_truncate(rows: DataFrame, state: TableState) -> DataFrame:
    """Drop rows, except tombstones, before the last truncate of their source. Tag the other positions, and drop SOURCE.

    Needs POSITION in the batch's epoch.
    """
    from pyspark.sql import functions as F

    rows = state.truncate.drop_older(rows.drop(OP, TOPIC), state.sources)
    return rows.withColumn(POSITION, state.sources.tag(F.col(POSITION), F.col(SOURCE))).drop(SOURCE)


@contextmanager
def carry_values_to_new_keys(
    rows: DataFrame, table_plan: TablePlan, state: TableState, read_stored: Callable[[], DataFrame | None]
) -> Iterator[DataFrame]:
    """Add the values of rows whose primary key changed, as partial updates of their new keys.

    Needs UNAVAILABLE, NEW_KEY and KEY_CHANGE_POSITION, and drops the last two. ``read_stored``: returns the table with the old
    rows.
    """
    if not table_plan.has_key_changes:
        yield rows
        return
    number = table_plan.marks.number
    with state.key_changes.carry_values(rows, table_plan.table.key, number, read_stored) as carried:
        yield carried


def deduplicate(rows: DataFrame, table_plan: TablePlan) -> DataFrame:
    """Return the latest change of each key, unavailable values filled from older changes of the batch.

    A tombstone is kept if the batch has no other change of its key.
    """
    rows = rows if table_plan.feed_sinks else rows.drop(COMMITTED)
    return (fill_from_older if table_plan.unavailable else latest_per_key)(rows, table_plan.table.key)


@contextmanager
def share_with_history(
    rows: DataFrame, table_plan: TablePlan
) -> Iterator[tuple[DataFrame, dict[TableMode, DataFrame]]]:
    """Return the rows, read once, and the frame of all changes for a history, if the table has one."""
    if not table_plan.keeps_history:
        yield rows, {}
        return
    shared = rows.persist()
    try:
        yield shared, {"history": exclude_tombstones(shared, table_plan)}
    finally:
        shared.unpersist()


def drop_late_after_delete(
    rows: DataFrame, table_plan: TablePlan, state: TableState
) -> AbstractContextManager[DataFrame]:
    """Drop the rows that are older than a delete of an earlier batch."""
    return (
        state.deleted_keys.drop_late(rows, table_plan.table.key) if table_plan.remembers_deletes else nullcontext(rows)
    )


@contextmanager
def cache_rows(frames: Mapping[TableMode, DataFrame]) -> Iterator[None]:
    """Cache the frames, read with one action, for the time of the block."""
    cached = [frame.persist() for frame in frames.values()]
    try:
        reduce(lambda a, b: a.unionByName(b), [f.agg({"*": "count"}) for f in cached]).collect()
        yield
    finally:
        for frame in cached:
            frame.unpersist()


def _appendable(rows: DataFrame, table_plan: TablePlan) -> DataFrame:
    rows = rows.drop(COMMITTED) if table_plan.needs_commit_times else rows
    return rows if table_plan.keeps_tombstones else exclude_tombstones(rows, table_plan)


def _without_key_changes(rows: DataFrame, table_plan: TablePlan) -> DataFrame:
    """Drop the columns that only upserts need, and name the unavailable values."""
    if UNAVAILABLE not in rows.columns:
        return rows
    return name_unavailable(rows, has_envelopes=table_plan.has_envelopes).drop(NEW_KEY, KEY_CHANGE_POSITION)


def _name_records(rows: DataFrame, table_plan: TablePlan) -> DataFrame:
    """Make positions unique in the whole source: an appended row has no other key.

    A position orders the changes of one key, so records of two topics may have the same one. TOPIC is dropped, unless a sink stores
    it. Then each part of a topic has its own name, because its table must not contain the records of the other parts. No topic has
    a plus sign in its name.
    """
    from pyspark.sql import functions as F

    rows = rows.withColumn(POSITION, F.concat(POSITION, F.lit("/"), TOPIC))
    if TOPIC not in table_plan.record_columns:
        return rows.drop(TOPIC)
    return rows.withColumn(TOPIC, F.concat_ws("+", TOPIC, PART)).drop(PART)
