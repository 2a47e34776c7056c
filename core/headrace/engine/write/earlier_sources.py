"""Sources of a table that an earlier version of headrace wrote without recording sources."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.checkpoint.layout import Checkpoint
    from headrace.engine.plan.pipeline_plan import Plan


def may_have_several(plan: Plan, checkpoint: Checkpoint, table: str, topics: Collection[str] = ()) -> bool:
    """Return whether a stored table may have rows of several sources. ``topics``: those of the batch.

    The table has one source if the rules route exactly one topic to it, and all records of this topic.
    """
    known = {topic for topic in checkpoint.orders.topics if plan.routes.table_of(topic) == table}.union(topics)
    routes = [plan.routes.of(topic) for topic in known]
    return len(known) != 1 or any(route is not None and (route.by or route.is_logical_table) for route in routes)
