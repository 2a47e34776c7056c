"""Resync: a table is made equal to a snapshot.

Older rows that are not in it are removed, like before a truncate at its start.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.checkpoint.backlog import read_failures
from headrace.checkpoint.layout import Checkpoint, list_tables
from headrace.checkpoint.offset_log import digest_offsets
from headrace.dead_letters.replay_queue import ReplayQueue
from headrace.dead_letters.store import open_stores, read_all
from headrace.engine.batch.view_refresh import ViewRefresher
from headrace.engine.plan.error_translation import translate
from headrace.engine.plan.pipeline_plan import Plan
from headrace.engine.write.earlier_sources import may_have_several
from headrace.engine.write.history_plan import HISTORY_MODES
from headrace.engine.write.sink_writer import SinkWriter
from headrace.engine.write.table_plan import BatchMarks, TablePlan
from headrace.errors import ConfigError
from headrace.sdk.reject_reason import UNREADABLE
from headrace.sdk.sink import Sink, Table
from headrace.spark.sessions import Sessions
from headrace.suggestions import did_you_mean
from headrace.upsert.snapshots import Snapshot
from headrace.upsert.table_sources import EARLIER, are_several
from headrace.upsert.table_state import TableState, TableStates
from headrace.upsert.truncates import ANY_SOURCE, deletes_before

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Resync:
    """Result of a resync for a sink's table.

    ``batch``: the first with rows of the snapshot; ``seen``: when, UTC, ISO 8601; ``removed``: number of removed rows.
    """

    table: str
    sink: str
    batch: int
    seen: str
    removed: int


def resync(plan: Plan, spark: SparkSession, table: str, *, now: bool = False) -> list[Resync]:
    """Remove the rows that are older than a table's newest snapshot from every upsert sink.

    The pipeline must not run meanwhile. ``now``: also if the snapshot has not ended, or has dead letters. ConfigError if it is
    unknown which rows to remove. Late changes do not restore removed rows; repeating it removes nothing.
    """
    checkpoint = Checkpoint(spark, plan.checkpoint, plan.name)
    plan.learn_tables(checkpoint.folder)
    sessions = Sessions(spark, plan.sql_conf)
    views = ViewRefresher(checkpoint, sessions)
    views.clean(plan)
    found = _resync(
        plan.for_table(table),
        spark,
        checkpoint,
        table,
        SinkWriter(plan.for_table(table), sessions, views.capture),
        now=now,
    )
    views.refresh(plan)
    views.raise_first_error()
    return found


def _resync(
    plan: Plan, spark: SparkSession, checkpoint: Checkpoint, table: str, writer: SinkWriter, *, now: bool
) -> list[Resync]:
    state = TableStates(checkpoint, plan.delete_retention_of).of(table)
    if not plan.removes_rows(table):
        raise ConfigError(
            "the table keeps rows that the database deletes, so no rows can be removed",
            where=f"table {table}",
            fix="remove `delete.tombstone.handling.mode` from `unwrap`",
        )
    snapshot = state.snapshot.value
    if snapshot is None:
        raise _no_snapshot(checkpoint, table)
    source = _find_source(plan, checkpoint, state)
    _check_caught_up(checkpoint, table)
    if not now:
        _check_applied(plan, spark, checkpoint, table, source, snapshot)
    table_plan = TablePlan(
        table=Table(table, snapshot.key),
        marks=BatchMarks(f"{checkpoint.id}/resync", checkpoint.next_batch, digest=digest_offsets(snapshot.position)),
        modes={sink: "history" for sink in plan.sinks if sink.config.mode == "history"},
        columns=(),
        truncated_sinks=tuple(sink for sink in plan.sinks if _upserts(sink)),
    ).with_history()
    truncates = state.truncate.advance({source: snapshot.position})
    try:
        removed = _remove_older(table_plan, truncates, state, writer)
    except Exception as error:
        raise translate(error, plan) from error
    return [Resync(table, plan.name_of(s), snapshot.batch, snapshot.seen, count) for s, count in removed.items()]


def _remove_older(
    table_plan: TablePlan, truncates: Mapping[str, str], state: TableState, writer: SinkWriter
) -> dict[Sink, int]:
    """Remove the rows that are older than truncates; return their number in each sink."""
    removed = {}
    for sink in table_plan.truncated_sinks:
        stored = writer.read_stored(sink, table_plan.table)
        key, sources = table_plan.table.key, state.sources
        removed[sink] = 0 if stored is None else deletes_before(stored, key, truncates, sources).count()
    writer.truncate(table_plan, truncates, state)
    return removed


def _upserts(sink: Sink) -> bool:
    return sink.capabilities.upsert and sink.config.mode in (None, "upsert", *HISTORY_MODES)


def _no_snapshot(checkpoint: Checkpoint, table: str) -> ConfigError:
    known = list_tables(checkpoint.snapshots)
    fix = "take a new snapshot of it with the connector, and run the pipeline until the snapshot is applied"
    return ConfigError(
        "no row of a snapshot was applied",
        where=f"table {table}",
        fix=f"{fix}; {did_you_mean(table, known)}" if known else fix,
    )


def _find_source(plan: Plan, checkpoint: Checkpoint, state: TableState) -> str:
    """Return the source of a table. ConfigError for several sources: a snapshot covers only one of them."""
    sources = state.sources.names
    if not state.sources.is_recorded and may_have_several(plan, checkpoint, state.table):
        sources = (EARLIER,)
    if are_several(sources):
        raise ConfigError(
            f"several sources are written to it, and a snapshot of one does not cover the others: {', '.join(sources)}",
            where=f"table {state.table}",
            fix="give each source its own `target:`. If the other sources no longer exist, stop the run and remove them from "
            f"{state.sources.path}",
        )
    return sources[0] if sources else ANY_SOURCE


def _check_caught_up(checkpoint: Checkpoint, table: str) -> None:
    """Raise ConfigError if a table has a backlog."""
    if table in read_failures(checkpoint.backlog):
        raise ConfigError(
            "is set aside and still has a backlog",
            where=f"table {table}",
            fix="let it catch up: `headrace run`",
        )


def _check_applied(
    plan: Plan, spark: SparkSession, checkpoint: Checkpoint, table: str, source: str, snapshot: Snapshot
) -> None:
    """Raise ConfigError if rows of the snapshot are not in the table yet."""
    from pyspark.sql import functions as F

    if not snapshot.has_ended:
        raise ConfigError(
            f"its snapshot, which started in batch {snapshot.batch}, has not ended",
            where=f"table {table}",
            fix="run the pipeline until the whole snapshot is applied; if a snapshot of one row has no end marker, add `--now`",
        )
    queue = ReplayQueue(spark, checkpoint.replay)
    dead_letters = read_all(open_stores(plan.dead_letter_table, checkpoint.dead_letters), spark, queue)
    if dead_letters is None:
        return
    # A record of a topic of several tables that cannot be read does not name its table.
    topic = source.partition("/")[0]
    is_unknown = (F.col("topic") == topic) & F.col("reason").isin(*UNREADABLE)
    is_own = (F.col("table") == table) | (is_unknown & (F.col("table") == plan.routes.table_of(topic)))
    count = dead_letters.where(is_own & (F.col("batch") >= snapshot.batch)).count()
    if count:
        raise ConfigError(
            f"{count} of its records since the snapshot started are dead letters, and their rows would be removed",
            where=f"table {table}",
            fix="`headrace replay` them after a fix, or add `--now`",
        )
