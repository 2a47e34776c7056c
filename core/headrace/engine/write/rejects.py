"""Handling of rejected changes: a truncate empties the table; others are dead letters, are dropped, or stop the run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.checkpoint.layout import Checkpoint
from headrace.dead_letters.rows import DeadLetterBatch, ReplayRun, dead_letter_rows
from headrace.dead_letters.store import open_stores
from headrace.engine.plan.pipeline_plan import Plan
from headrace.engine.write.sink_writer import SinkWriter
from headrace.engine.write.table_plan import TablePlan
from headrace.sdk.changes import ERROR, POSITION, Changes
from headrace.sdk.positions import in_epoch
from headrace.sdk.reject_reason import RejectReason
from headrace.upsert.truncates import TruncateMarker

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from headrace.sdk.events import Events


@dataclass(frozen=True)
class Rejected:
    """Number of dead letters of a table's batch, and of records that the file drops.

    ``has_other_tables``: some records were of another source table than their topic.
    """

    dead_letters: int = 0
    dropped: int = 0
    has_other_tables: bool = False


class Rejects:
    """Handler of the changes of a batch that have an ERROR."""

    def __init__(self, plan: Plan, checkpoint: Checkpoint, writer: SinkWriter, replay: ReplayRun | None = None) -> None:
        """``replay``: the replay that the changes belong to, if they are dead letters."""
        self._plan, self._writer, self._replay = plan, writer, replay
        self._store = open_stores(plan.dead_letter_table, checkpoint.dead_letters)[0]

    def handle(self, changes: Changes, table_plan: TablePlan, events: Events, marker: TruncateMarker) -> Rejected:
        """Empty the table for a truncate, then save dead letters. Needs every field of the changes.

        ``events``: of one of the table's topics; ``marker``: the table's. It follows the batch's rows, some of which may be older
        than a truncate, too. A truncate that some sink cannot apply is also a dead letter.
        """
        counts, truncate = self._count(changes, table_plan)
        if truncate is not None:
            marker.advance(truncate)
            self._writer.truncate(table_plan, marker)
        is_applied = truncate is not None and len(table_plan.truncated_sinks) == len(table_plan.modes)
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
        dropped = sum(drops.values())
        return Rejected(sum(counts.values()) - dropped, dropped, RejectReason.OTHER_TABLE in counts)

    def _count(self, changes: Changes, table_plan: TablePlan) -> tuple[dict[str, int], str | None]:
        """Return the number of records by reason, and the position of the last truncate that empties the table."""
        from pyspark.sql import functions as F

        is_truncate = F.col(ERROR) == RejectReason.TRUNCATED
        position = in_epoch(F.col(POSITION), table_plan.marks.epoch)
        truncate = F.max(F.when(is_truncate, position)) if table_plan.truncated_sinks else F.lit(None)
        reasons = changes.frame.where(F.col(ERROR).isNotNull()).groupBy(ERROR).agg(F.count("*"), truncate).collect()
        counts: Mapping[str, int] = {reason: count for reason, count, _ in reasons}
        return dict(counts), max((position for *_, position in reasons if position is not None), default=None)

    def _save(self, dead_letters: DataFrame, table_plan: TablePlan) -> None:
        store, marks, name = self._store, table_plan.marks, table_plan.table.name
        batch = DeadLetterBatch(marks.batch, name, marks.pipeline, marks.dead_letters(name), self._replay, marks.digest)
        self._writer.retry(store.sink, store.table_name or name, lambda: store.save(dead_letters, batch))
