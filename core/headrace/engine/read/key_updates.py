"""Updates that change a key column which a rule of the pipeline file names.

A connector splits an update of its own key into a delete and an insert. It does not know the key columns of a rule.
"""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING, Any

from headrace.sdk.changes import DELETED, ERROR, IMAGES, KEY, OP, POSITION, PREFIX, Changes
from headrace.spark.columns import any_of, match_names

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import Column

_IS_OLD = PREFIX + "is_old"
#: End of the position of a delete of an old key. The positions of a record's changes differ.
_OLD_SUFFIX = "-"


def split_key_updates(changes: Changes) -> Changes:
    """Split each update of an envelope that changes the key into two changes: the delete of the old key, and the update.

    An update is not split if its row before the change is missing, or has null in a key column.
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
    halves = F.when(_changes_key(old_key), F.array(F.lit(True), F.lit(False))).otherwise(F.array(F.lit(False)))
    is_old = F.col(_IS_OLD)
    key = F.struct(*[column.alias(name) for name, column in old_key.items()]).cast(key_type)
    columns = {
        KEY: F.when(is_old, key).otherwise(F.col(KEY)),
        DELETED: is_old | F.col(DELETED),
        POSITION: F.when(is_old, F.concat(POSITION, F.lit(_OLD_SUFFIX))).otherwise(F.col(POSITION)),
        "after": F.when(~is_old, F.col("after")),
        **{name: F.when(is_old, "d").otherwise(F.col(name)) for name in ("op", OP) if name in frame.columns},
    }
    frame = frame.select("*", F.explode(halves).alias(_IS_OLD)).withColumns(columns).drop(_IS_OLD)
    return replace(changes, frame=frame)


def _changes_key(old_key: Mapping[str, Column]) -> Column:
    """Return whether a change is an update whose row had another key before."""
    from pyspark.sql import functions as F

    key = F.col(KEY)
    is_known = reduce(lambda a, b: a & b, [column.isNotNull() for column in old_key.values()])
    is_other = any_of(column != key.getField(name) for name, column in old_key.items())
    is_update = F.col(ERROR).isNull() & (F.col(OP) == "u")
    return F.coalesce(is_update & is_known & is_other, F.lit(False))
