"""Changes of a table between two of its versions."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import quote

from headrace.errors import ConfigError, DataError
from headrace.sdk.changes import POSITION
from headrace.spark.columns import fold_name, quote_name
from headrace.upsert.table_modes import TableModes
from headrace.upsert.versions import START, is_history

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from headrace.checkpoint.layout import CheckpointFolders
    from headrace.engine.plan.pipeline_plan import Plan

#: Columns of the result. ``op``: c (insert), u (update) or d (delete).
OP, BEFORE, AFTER = "op", "before", "after"
#: Names of the intermediate columns; the images are structs, so that no column of a table has one of these names.
_KEY, _POSITION = "key_", "position_"
#: Formats of times with all digits: Spark's own have milliseconds.
_JSON = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}


def read_table_key(plan: Plan, folders: CheckpointFolders, table: str) -> tuple[str, ...]:
    """Return the key columns of a table or a view. ConfigError if it has none."""
    view = next((view for view in plan.views if view.name == table), None)
    key = view.key if view else read_key(folders, table)
    if not key:
        raise ConfigError(
            "its rows have no key by which versions can be compared",
            where=f"table {table}",
            fix="read the rows of both versions; or give the table a key, and run the pipeline once",
        )
    return key


def read_key(folders: CheckpointFolders, table: str) -> tuple[str, ...]:
    """Return the key columns of a table's last batch; empty without a key."""
    return TableModes(folders.table_modes, quote(table, safe="")).key


def diff_versions(
    older: DataFrame, newer: DataFrame, *, key: tuple[str, ...], hidden_prefixes: tuple[str, ...]
) -> DataFrame:
    """Return the rows that differ between two versions: ``op``, and the structs ``before`` and ``after``, one of which may be null.

    The versions have headrace's own columns: a row with the same position in both is the same row; without a position, values decide.
    Of a table with a history, each version of a row is compared. ``hidden_prefixes``: prefixes of columns that are not compared.
    """
    from pyspark.sql import functions as F

    key = (*key, START) if is_history(newer) else key
    name = partial(_name_image, key=key, hidden_prefixes=hidden_prefixes)
    before, after = name(older, BEFORE), name(newer, AFTER)
    same_key = [before[f"{BEFORE}{_KEY}{i}"].eqNullSafe(after[f"{AFTER}{_KEY}{i}"]) for i in range(len(key))]
    op = name_change(F.col(BEFORE + _POSITION), F.col(AFTER + _POSITION))
    return before.join(after, same_key, "full").select(op.alias(OP), BEFORE, AFTER).where(F.col(OP).isNotNull())


def name_change(position_before: Column, position_after: Column) -> Column:
    """Return c, u or d from the structs BEFORE and AFTER of a row; null for the same row. Positions are null for rows of another writer."""
    from pyspark.sql import functions as F

    has_changed = F.coalesce(position_before != position_after, F.lit(True))
    # Values are compared as JSON, because Spark does not compare maps, nor structs of other fields.
    differs = ~F.to_json(BEFORE, _JSON).eqNullSafe(F.to_json(AFTER, _JSON))
    is_inserted = F.col(BEFORE).isNull() & F.col(AFTER).isNotNull()
    is_deleted = F.col(BEFORE).isNotNull() & F.col(AFTER).isNull()
    return F.when(is_inserted, "c").when(is_deleted, "d").when(has_changed & differs, "u")


def _name_image(rows: DataFrame, image: str, *, key: tuple[str, ...], hidden_prefixes: tuple[str, ...]) -> DataFrame:
    """Return the rows as a struct, with their key columns and positions, under names that contain the image's."""
    from pyspark.sql import functions as F

    own = {fold_name(name): name for name in rows.columns if not name.startswith(hidden_prefixes)}
    keys = own | {fold_name(name): name for name in rows.columns if name == START}
    if missing := [name for name in key if fold_name(name) not in keys]:
        raise DataError(f"a version of the table lacks the key column {missing[0]!r}", fix="choose a later version")
    position: Column = F.col(POSITION) if POSITION in rows.columns else F.lit(None).cast("string")
    return rows.select(
        *[F.col(quote_name(keys[fold_name(name)])).alias(f"{image}{_KEY}{i}") for i, name in enumerate(key)],
        position.alias(image + _POSITION),
        F.struct(*map(quote_name, own.values())).alias(image),
    )
