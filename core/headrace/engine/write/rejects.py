"""Handling of rejected changes: a truncate removes the rows of its source; others become dead letters, are dropped, or stop the run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from headrace.checkpoint.layout import Checkpoint
from headrace.dead_letters.rows import DeadLetterBatch, ReplayRun, dead_letter_rows
from headrace.dead_letters.store import open_stores
from headrace.engine.plan.pipeline_plan import Plan
from headrace.engine.write.sink_writer import SinkWriter
from headrace.engine.write.table_plan import TablePlan
from headrace.engine.write.upsert_steps import committed_or_recorded
from headrace.sdk.changes import COMMITTED, ERROR, POSITION, Changes
from headrace.sdk.positions import in_epoch
from headrace.sdk.reject_reason import RejectReason
from headrace.upsert.table_sources import SOURCE
from headrace.upsert.table_state import TableState
from headrace.upsert.truncates import MAX_SOURCES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from headrace.sdk.events import Events


@dataclass(frozen=True)
class Rejected:
    """Number of dead letters of a table's batch, and of records that the file drops.

    ``has_other_tables``: some records were of another source table than their topic. ``reasons``: reject reason → number of dead letters.
    """

    dead_letters: int = 0
    dropped: int = 0
    has_other_tables: bool = False
    reasons: Mapping[str, int] = field(default_factory=dict, compare=False)

    @property
    def counts(self) -> dict[str, Any]:
        """Counts for the progress of the table."""
        return {"dead_letters": self.dead_letters, "dropped": self.dropped, "reasons": self.reasons}


class Rejects:
    """Handler of the changes of a batch that have an ERROR."""

    def __init__(self, plan: Plan, checkpoint: Checkpoint, writer: SinkWriter, replay: ReplayRun | None = None) -> None:
        """``replay``: the replay that the changes belong to, if they are dead letters."""
        self._plan, self._writer, self._replay = plan, writer, replay
        self._store = open_stores(plan.dead_letter_table, checkpoint.dead_letters)[0]

    def handle(self, changes: Changes, table_plan: TablePlan, events: Events, state: TableState) -> Rejected:
        """Apply truncates, then save dead letters. Requires every field of the changes.

        ``events``: events of one of the table's topics; ``state``: state of the table, with the sources of this batch. Called after
        the batch's rows are written, because some of them may be older than a truncate. A truncate is a dead letter if a sink
        cannot apply it, or if the rows of its source cannot be distinguished from other rows.
        """
        counts = self._count(changes)
        truncates: dict[str | None, str] = {}
        if table_plan.truncated_sinks and RejectReason.TRUNCATED in counts:
            truncates = _find_truncates(changes, table_plan)
        if truncates and not state.truncate.accepts(truncates, state.sources):
            changes, truncates = _reject_truncates(changes), {}
            counts[RejectReason.TRUNCATED_SOURCE] = counts.pop(RejectReason.TRUNCATED)
        if truncates:
            positions = state.truncate.advance({source: p for source, p in truncates.items() if source is not None})
            each = _list_truncates(changes, table_plan) if table_plan.keeps_history else None
            self._writer.truncate(table_plan, positions, state, each)
        is_applied = bool(truncates) and len(table_plan.truncated_sinks) == len(table_plan.modes)
        if is_applied:
            del counts[RejectReason.TRUNCATED]
        drops = self._plan.dead_letter_policy.drops(counts, table_plan.table.name)
        if counts.keys() - drops.keys():
            rows = dead_letter_rows(
                changes,
                batch=table_plan.marks.batch,
                table=table_plan.table.name,
                hide=self._plan.hides_values,
                plugins=self._plan.reason_owners(events),
                without=[*drops, *([RejectReason.TRUNCATED] if is_applied else [])],
                replay=self._replay,
            )
            self._save(rows, table_plan)
        kept = {reason: count for reason, count in counts.items() if reason not in drops}
        is_of_others = RejectReason.OTHER_TABLE in counts
        return Rejected(sum(kept.values()), sum(drops.values()), is_of_others, kept)

    def _count(self, changes: Changes) -> dict[str, int]:
        """Return the number of records by reason."""
        from pyspark.sql import functions as F

        return dict(map(tuple, changes.frame.where(F.col(ERROR).isNotNull()).groupBy(ERROR).count().collect()))

    def _save(self, dead_letters: DataFrame, table_plan: TablePlan) -> None:
        store, marks, name = self._store, table_plan.marks, table_plan.table.name
        batch = DeadLetterBatch(marks.batch, name, marks.pipeline, marks.dead_letters(name), self._replay, marks.digest)
        self._writer.retry(store.sink, store.table_name or name, lambda: store.save(dead_letters, batch))


def has_truncates(changes: Changes) -> bool:
    """Return whether one of the changes is a truncate."""
    from pyspark.sql import functions as F

    return not changes.frame.where(F.col(ERROR) == RejectReason.TRUNCATED).isEmpty()


def _find_truncates(changes: Changes, table_plan: TablePlan) -> dict[str | None, str]:
    """Return source → position of its last truncate. The key None has the truncates that do not name their source."""
    from pyspark.sql import functions as F

    position = in_epoch(F.col(POSITION), table_plan.marks.epoch)
    found = changes.frame.where(F.col(ERROR) == RejectReason.TRUNCATED).groupBy(SOURCE).agg(F.max(position))
    return dict(map(tuple, found.limit(MAX_SOURCES + 1).collect()))


def _list_truncates(changes: Changes, table_plan: TablePlan) -> DataFrame:
    """Return every truncate of the batch: SOURCE, POSITION in the batch's epoch, and COMMITTED."""
    from pyspark.sql import functions as F

    position = in_epoch(F.col(POSITION), table_plan.marks.epoch).alias(POSITION)
    found = changes.frame.where(F.col(ERROR) == RejectReason.TRUNCATED)
    return found.select(SOURCE, position, committed_or_recorded(found).alias(COMMITTED)).distinct()


def _reject_truncates(changes: Changes) -> Changes:
    """Return the changes with the reason TRUNCATED_SOURCE for each truncate."""
    from pyspark.sql import functions as F

    is_truncate = F.col(ERROR) == RejectReason.TRUNCATED
    error = F.when(is_truncate, F.lit(RejectReason.TRUNCATED_SOURCE)).otherwise(F.col(ERROR))
    return replace(changes, frame=changes.frame.withColumn(ERROR, error))
