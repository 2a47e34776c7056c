"""Transforms of a topic's changes, one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from headrace.engine.plan.pipeline_plan import Plan
from headrace.engine.read.column_order import refuse_hidden, refuse_tagged
from headrace.engine.read.decoded_bytes import drop_decoded_keys
from headrace.engine.read.reserved_names import reject_own_names
from headrace.engine.read.tagged_columns import reject_unmasked, tag_columns, update_tags
from headrace.engine.read.transform_counts import TransformCounter, apply_transform
from headrace.errors import HeadraceError
from headrace.sdk.changes import Changes
from headrace.sdk.rows import row_types
from headrace.sdk.transform import Transform

if TYPE_CHECKING:
    from headrace.engine.read.lineage_log import LineageLog
    from headrace.engine.read.seen_columns import SeenColumns
    from headrace.sdk.schema_log import SchemaLog


@dataclass(frozen=True)
class ChainWatch:
    """What is noted while transforms are applied: their input, the changes that they leave out, and the sources of columns."""

    seen: SeenColumns | None = None
    balance: TransformCounter | None = None
    lineage: LineageLog | None = None


class TransformChain:
    """Transforms of a pipeline."""

    def __init__(self, plan: Plan, inferred_columns: SchemaLog | None) -> None:
        """``inferred_columns``: types from values; None: without data, as in ``headrace check``."""
        self._plan, self._inferred_columns = plan, inferred_columns

    def apply(
        self, changes: Changes, *, transforms: Sequence[Transform], topic: str, own: str | None, watch: ChainWatch
    ) -> Changes:
        """Apply the transforms. The bytes of a decoded key are removed if a transform hides one of its columns.

        ``own``: the table of changes without a table; None if they become dead letters.
        """
        hides_key, tags, seen = False, self._plan.tags, watch.seen
        changes = replace(changes, schemas=self._inferred_columns)
        changes = tag_columns(tags, changes) if tags else changes
        refuse_tagged(changes)
        if seen is not None:
            seen.note_columns(changes)
        trace = watch.lineage.trace(topic, changes) if watch.lineage else None
        for number, transform in enumerate(transforms, 1):
            hides_key |= self._note_transform(changes, transform, topic, seen)
            try:
                refuse_hidden(changes, transform)
                given = trace.mark(changes) if trace else changes
                result = apply_transform(transform, given, watch.balance)
                if self._inferred_columns is None and _list_untyped(result) - _list_untyped(changes):
                    # Without data, the type is unknown, and later transforms cannot be planned.
                    if seen is not None:
                        seen.skip(transforms[number:])
                    return result
                result = trace.follow(changes, result, transform) if trace else result
                changes = update_tags(tags, changes, result, transform) if tags else result
            except HeadraceError as error:
                error.at(f"transform {transform.name}, topic {topic}")
                raise
        reject_unmasked(changes, changes.table or own)
        if seen is not None:
            seen.note_columns(changes)
        if trace is not None and watch.lineage is not None:
            watch.lineage.note(trace, changes, own)
        return drop_decoded_keys(changes) if hides_key else changes

    def _note_transform(self, changes: Changes, transform: Transform, topic: str, seen: SeenColumns | None) -> bool:
        """Note the input of a transform; return whether it hides a column of the key."""
        if changes.envelope and transform.flattens:
            reject_own_names([*changes.row_columns, *changes.key_columns], topic, envelope=True)
        if not transform.applies_to(changes.table):
            return False
        if seen is not None:
            seen.note(transform, topic, changes)
        return transform.hides_values and not set(transform.hides(changes)).isdisjoint(changes.key_columns)


def _list_untyped(changes: Changes) -> set[str]:
    return {name for name, kind in row_types(changes).items() if kind.typeName() == "void"}
