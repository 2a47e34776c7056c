"""Keys of changes: their spelling, and changes without one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce

from headrace.sdk.changes import ERROR, KEY, NEW_KEY, Changes
from headrace.sdk.reject_reason import RejectReason
from headrace.spark.columns import match_names


def reject_missing_keys(changes: Changes, names: Sequence[str]) -> Changes:
    """Reject changes without a value in a key column of the table (``names``) as KEY_MISSING."""
    from pyspark.sql import functions as F

    if not names:
        return changes
    key = F.col(KEY)
    is_missing = reduce(lambda a, b: a | b, [key.getField(name).isNull() for name in names], key.isNull())
    error = F.coalesce(F.col(ERROR), F.when(is_missing, F.lit(RejectReason.KEY_MISSING)))
    return replace(changes, frame=changes.frame.withColumn(ERROR, error))


def match_key_spelling(changes: Changes) -> Changes:
    """Spell the key's columns like the row's, where the session is not case-sensitive."""
    from pyspark.sql import functions as F

    names = match_names(changes.frame.sparkSession, changes.key_columns, changes.row_columns)
    spellings = {key_name: row_name for row_name, key_name in names.items()}
    if all(key_name == row_name for key_name, row_name in spellings.items()):
        return changes
    frame = changes.frame
    for name in {KEY, NEW_KEY} & set(frame.columns):
        key = F.col(name)
        fields = [key.getField(k).alias(spellings.get(k, k)) for k in changes.key_columns]
        frame = frame.withColumn(name, F.when(key.isNotNull(), F.struct(*fields)))
    return replace(changes, frame=frame)
