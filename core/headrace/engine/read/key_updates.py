"""Updates that change a key column which a rule of the pipeline file names.

A connector splits an update of its own key into a delete and an insert. It does not know the key columns of a rule.
"""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING, Any

from headrace.sdk.changes import (
    DELETED,
    ERROR,
    IMAGES,
    KEY,
    KEY_CHANGE_POSITION,
    NEW_KEY,
    OP,
    POSITION,
    PREFIX,
    Changes,
)
from headrace.spark.columns import any_of, barrier, match_names
from headrace.spark.error_text import full_text, text_after_raised
from headrace.upsert.unavailable import is_true

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import Column, DataFrame

    from headrace.upsert.unavailable import Tests

#: Struct of a change that was split: the ``record``, equal in both halves, and whether the half ``is_old``, the delete of the old key.
HALF = PREFIX + "half"
_IS_OLD = PREFIX + "is_old"
#: End of the position of a delete of an old key, and of an update that omits values. The positions of a record's changes differ, and
#: values that are carried to the new key sort between the record's position and that of its update.
_OLD_SUFFIX, _OMITTING_SUFFIX = "-", "0"
_REJECTED = PREFIX + "rejected"
_MARK = "<headrace-key-update-rejected>"


def split_key_updates(changes: Changes, topic: str, tests: Tests) -> Changes:
    """Split each update of an envelope that changes the key into two changes: the delete of the old key, and the update.

    An update is not split if its row before the change is missing, or has null in a key column. HALF connects the two changes. If the
    update omits values (``tests``), the delete has NEW_KEY and KEY_CHANGE_POSITION, so that the values are carried to the new key.
    """
    from pyspark.sql import functions as F

    frame, before = changes.frame, F.col("before")
    if not {KEY, OP, *IMAGES} <= set(frame.columns):
        return changes
    key_type: Any = frame.schema[KEY].dataType
    # Keys of other types are rejected later.
    is_plain = all(field.dataType.typeName() not in ("struct", "map") for field in key_type)
    fields = getattr(frame.schema["before"].dataType, "names", ())
    spellings = {name: field for field, name in match_names(frame.sparkSession, changes.key_columns, fields).items()}
    if not is_plain or spellings.keys() != set(changes.key_columns):
        return changes
    old_key = {name: before.getField(spellings[name]) for name in changes.key_columns}
    is_old, is_split = F.col(_IS_OLD), _changes_key(old_key)
    halves = F.when(is_split, F.array(F.lit(True), F.lit(False))).otherwise(F.array(F.lit(None).cast("boolean")))
    half = F.struct(F.concat(F.lit(f"{topic}/"), POSITION).alias("record"), is_old.alias("is_old"))
    key = F.struct(*[column.alias(name) for name, column in old_key.items()]).cast(key_type)
    omits = is_old.isNotNull() & _omits_values(frame, tests)
    new_key = {NEW_KEY: F.when(is_old & omits, F.col(KEY)), KEY_CHANGE_POSITION: F.col(POSITION)} if tests else {}
    columns = {
        **new_key,
        HALF: F.when(is_old.isNotNull(), half),
        KEY: F.when(is_old, key).otherwise(F.col(KEY)),
        DELETED: F.coalesce(is_old, F.lit(False)) | F.col(DELETED),
        POSITION: F.when(is_old, F.concat(POSITION, F.lit(_OLD_SUFFIX)))
        .when(omits, F.concat(POSITION, F.lit(_OMITTING_SUFFIX)))
        .otherwise(F.col(POSITION)),
        "after": F.when(~F.coalesce(is_old, F.lit(False)), F.col("after")),
        **{name: F.when(is_old, "d").otherwise(F.col(name)) for name in ("op", OP) if name in frame.columns},
    }
    frame = frame.select("*", F.explode(halves).alias(_IS_OLD)).withColumns(columns).drop(_IS_OLD)
    return replace(changes, frame=frame)


def fail_on_rejected_half(changes: Changes) -> Changes:
    """Return changes of which a task fails if it meets a rejected half of an update.

    ``is_rejected_half_error`` recognizes the error. Dropping the other half takes a second read of the batch, and is rarely needed.
    """
    from pyspark.sql import functions as F

    if HALF not in changes.own_columns:
        return changes
    failure = F.when(F.col(HALF).isNotNull() & F.col(ERROR).isNotNull(), F.raise_error(F.lit(_MARK)).cast("string"))
    return replace(changes, frame=changes.frame.withColumn(ERROR, barrier(F.coalesce(failure, F.col(ERROR)))))


def is_rejected_half_error(error: BaseException) -> bool:
    """Return whether a task failed because of a rejected half of an update."""
    return text_after_raised(_MARK, full_text(error)) is not None


def drop_other_halves(changes: Changes, again: Changes) -> Changes:
    """Return the changes without the other halves of rejected ones: an update is applied as a whole, or is one rejected change.

    ``again``: the same changes, read a second time.
    """
    from pyspark.sql import functions as F

    if HALF not in changes.own_columns:
        return changes
    record, is_old = (F.col(HALF).getField(name) for name in ("record", "is_old"))
    rejected = again.frame.where(F.col(HALF).isNotNull() & F.col(ERROR).isNotNull())
    rejected = rejected.select(record.alias(_REJECTED), is_old.alias(_IS_OLD))
    # If both halves are rejected, the update is the change to report.
    is_other = (record == F.col(_REJECTED)) & (is_old != F.col(_IS_OLD)) & (is_old | F.col(ERROR).isNull())
    return replace(changes, frame=changes.frame.join(F.broadcast(rejected), is_other, "left_anti"))


def _omits_values(frame: DataFrame, tests: Tests) -> Column:
    """Return whether the row after a change has an unavailable value."""
    from pyspark.sql import functions as F

    names = getattr(frame.schema["after"].dataType, "names", ())
    return any_of(is_true(test(F.col("after").getField(name))) for name, test in tests.items() if name in names)


def _changes_key(old_key: Mapping[str, Column]) -> Column:
    """Return whether a change is an update whose row had another key before."""
    from pyspark.sql import functions as F

    key = F.col(KEY)
    is_known = reduce(lambda a, b: a & b, [column.isNotNull() for column in old_key.values()])
    is_other = any_of(column != key.getField(name) for name, column in old_key.items())
    is_update = F.col(ERROR).isNull() & (F.col(OP) == "u")
    return F.coalesce(is_update & is_known & is_other, F.lit(False))
