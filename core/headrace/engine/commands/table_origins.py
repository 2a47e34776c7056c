"""Origin of the tables of a pipeline, and how far it has applied its source, to compare the tables with their database."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.checkpoint.layout import CheckpointFolders
from headrace.checkpoint.orders import read_ordered_topics
from headrace.engine.commands.table_changes import read_key
from headrace.engine.plan.pipeline_plan import Plan
from headrace.engine.write.hidden_columns import find_hidden
from headrace.sdk.source import NativeSource, Offset, SourceContext
from headrace.spark.columns import name_fold

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class TableOrigin:
    """Topics of a table, and what its rules and transforms change."""

    table: str
    topics: tuple[str, ...]
    #: Key columns of the table's rows; empty without a key, and until the next batch of an older checkpoint.
    key: tuple[str, ...] = ()
    #: Transforms that leave out rows, or make several rows of one.
    row_transforms: tuple[str, ...] = ()


def find_origins(plan: Plan, checkpoint: CheckpointFolders) -> list[TableOrigin]:
    """Return the tables of the topics that a pipeline has read, sorted by name."""
    topics: dict[str, list[str]] = {}
    for topic in read_ordered_topics(checkpoint.folder):
        route = plan.routes.of_subject(topic)
        if route is not None and route.error is None:
            topics.setdefault(route.table, []).append(topic)
    return [
        TableOrigin(name, tuple(topics[name]), read_key(checkpoint, name), _list_row_transforms(plan, name))
        for name in sorted(topics)
    ]


def find_changed_columns(plan: Plan, table: str, stored: DataFrame) -> set[str]:
    """Return the columns of a stored table, and those of its events, that transforms set, hide, rename or drop."""
    names = plan.list_changed_columns(table, stored.schema) | find_hidden(plan, table, stored)
    fold = name_fold(stored.sparkSession)
    spelled: Mapping[str, str] = {fold(name): name for name in stored.columns}
    return {spelled.get(fold(name), name) for name in names}


def find_end(plan: Plan, session: SparkSession, checkpoint: CheckpointFolders) -> Offset | None:
    """Return the end of the source's records; None when unknown, or before the first batch."""
    context = _find_context(plan, session, checkpoint)
    return None if context is None else plan.source.find_end(context)


def has_applied(plan: Plan, session: SparkSession, checkpoint: CheckpointFolders, end: Offset) -> bool:
    """Return whether the batches that are done contain all records before ``end``."""
    context = _find_context(plan, session, checkpoint)
    return context is not None and plan.source.has_read(context, end)


def _find_context(plan: Plan, session: SparkSession, checkpoint: CheckpointFolders) -> SourceContext | None:
    """Return the context of the last batch that is done; None for a source that is not a stream, and before the first batch."""
    if not isinstance(plan.source, NativeSource):
        return None
    done = [int(name) for name in checkpoint.stream.folder("commits").names() if name.isdigit()]
    if not done:
        return None
    schemas = plan.open_schema_log(session, checkpoint.topic_schemas)
    return SourceContext(session, schemas, batch=max(done), stream=checkpoint.stream)


def _list_row_transforms(plan: Plan, table: str) -> tuple[str, ...]:
    applied = (transform for transform in plan.transforms if transform.applies_to(table))
    return tuple(t.name for t in applied if (t.filters or t.multiplies) and not t.flattens)
