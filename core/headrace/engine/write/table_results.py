"""Results of a table's part of a batch, as progress of each write."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from headrace.control_characters import escape_controls
from headrace.engine.plan.pipeline_plan import Plan
from headrace.engine.write.rejects import Rejected
from headrace.engine.write.removed_rows import Removed
from headrace.engine.write.row_metrics import Counts, table_progress
from headrace.engine.write.table_plan import TablePlan
from headrace.progress.model import TableProgress
from headrace.sdk.sink import Sink, WriteResult


def list_progress(
    plan: Plan,
    table_plan: TablePlan,
    results: Sequence[WriteResult],
    counts: Counts,
    rejected: Rejected,
    removed: Mapping[Sink, Removed],
    readable: float,
    seconds: float,
    note: str | None = None,
) -> list[TableProgress]:
    """Return the progress of each write, in the order of ``TablePlan.writes``."""
    return [
        table_progress(
            table.name,
            plan.name_of(sink),
            mode,
            removed[sink].add_to(result) if sink in removed else result,
            counts.with_removed(removed[sink].rows) if sink in removed else counts,
            **rejected.counts,
            began=time.time() - seconds,
            readable=readable,
            seconds=seconds,
            note="; ".join(filter(None, [note or table_plan.note, *map(escape_controls, result.schema_changes)]))
            or None,
        )
        for (table, sink, mode), result in zip(table_plan.writes, results, strict=True)
    ]
