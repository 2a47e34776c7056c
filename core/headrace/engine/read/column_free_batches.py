"""Batches whose records show no column of the table, such as the first batch of a topic if it has only truncates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from headrace.sdk.changes import ERROR, IMAGES, POSITION, Changes
from headrace.sdk.positions import is_tombstone
from headrace.sdk.reject_reason import RejectReason
from headrace.sdk.transform import Transform


def reject_without_columns(changes: Changes, transforms: Sequence[Transform]) -> tuple[Changes, Sequence[Transform]]:
    """Return the changes and the transforms to apply. Changes that show no column become rejected rows, and no transform applies.

    Those without an error are rejected as AFTER_MISSING. The columns that transforms add, such as those of the envelope, would make a
    table without the row's columns.
    """
    from pyspark.sql import functions as F

    if _shows_columns(changes, transforms):
        return changes, transforms
    frame = changes.frame.select(*changes.own_columns)
    lacks_row = F.when(~is_tombstone(F.col(POSITION)), F.lit(RejectReason.AFTER_MISSING))
    frame = frame.withColumn(ERROR, F.coalesce(ERROR, lacks_row))
    return replace(changes, frame=frame, envelope=False), ()


def _shows_columns(changes: Changes, transforms: Sequence[Transform]) -> bool:
    """Return whether changes have columns of the table. Envelopes that no transform flattens are rows themselves."""
    if changes.key_columns:
        return True
    if not changes.envelope or not any(transform.flattens for transform in transforms):
        return bool(changes.event_columns)
    return not {*IMAGES}.isdisjoint(changes.event_columns)
