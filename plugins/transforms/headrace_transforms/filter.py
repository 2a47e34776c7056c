"""Rows of a table that are left out, by a SQL condition."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from pydantic import model_validator

from headrace.sdk import Changes, Transform, TransformConfig
from headrace.sdk.changes import DELETED, ERROR, HEADERS, KEY, OP
from headrace.sdk.columns import any_of
from headrace.sdk.conditions import evaluate_condition, has_columns
from headrace.sdk.rows import METADATA, list_images, reject_rows, row_scope, unavailable_flags
from headrace.sdk.sql import SqlExpression, read_columns

if TYPE_CHECKING:
    from pyspark.sql import Column

_MATCHES = "_headrace_matches_"


class FilterConfig(TransformConfig):
    """Rows to keep, as with Debezium's Filter; or with ``when`` alone rows to leave out, as with Kafka Connect's Filter."""

    condition: SqlExpression | None = None
    """SQL condition over the row. Rows for which it is not true are left out; with ``when``, only those that ``when`` selects."""

    updates: Literal["delete", "drop"] = "delete"
    """Update of a row that no longer fulfills the condition: ``delete`` removes its row from the table, ``drop`` leaves it there."""

    @model_validator(mode="after")
    def _has_condition(self) -> FilterConfig:
        if self.condition is None and self.when is None:
            raise ValueError("requires `condition`, or `when`")
        return self


class Filter(Transform):
    """``filter: {condition: "country = 'CH'"}``. Deletes are always applied."""

    name = "filter"
    api_version = 1
    Config = FilterConfig
    config: FilterConfig
    filters = True

    def __init__(self, config: Any = None, **options: Any) -> None:
        super().__init__(config, **options)
        self.deletes_rows = self.config.updates == "delete"

    def reads(self) -> Collection[str]:
        return read_columns(self.config.condition)

    def apply(self, changes: Changes) -> Changes:
        return self._keep(changes, self.config.condition or "false")

    def apply_when(self, changes: Changes, condition: str) -> Changes:
        return self._keep(changes, f"({condition}) IS NOT TRUE OR ({self.config.condition or 'false'})")

    def _keep(self, changes: Changes, condition: str) -> Changes:
        """Return the changes whose row fulfills a condition, deletes, and dead letters."""
        from pyspark.sql import functions as F

        if not has_columns(changes, condition):
            return changes
        image = list_images(changes)[-1]
        if image == "before":  # The batch has only deletes.
            return changes
        name = f"{_MATCHES}0"
        scope = row_scope(changes, image, (*METADATA, HEADERS))
        found = replace(changes, frame=evaluate_condition(changes.frame, scope, condition, _MATCHES))
        own, matches = changes.own_columns, F.col(name)
        # A delete that `unwrap` keeps as a row is not DELETED.
        is_delete = F.coalesce(F.col(OP) == "d", F.lit(False)) if OP in own else F.lit(False)
        if flags := unavailable_flags(changes, read_columns(condition)):
            # Null stands for an unavailable value, so a result that is not null may be wrong, too.
            is_unknown = any_of(flags) & ~is_delete
            found = reject_rows(found, {"the condition of `filter` reads a value that the event omits": is_unknown})
        is_kept = F.coalesce(matches, F.lit(False)) | is_delete
        for column, test in {DELETED: F.col(DELETED), ERROR: F.col(ERROR).isNotNull()}.items():
            is_kept |= test if column in own else F.lit(False)
        if self.config.updates == "delete" and {DELETED, OP} <= set(own):
            # A row without an operation may be an update. Without a key, it changes no other row.
            may_update = F.coalesce(F.col(OP) == "u", F.lit(KEY in own))
            found = _delete_rows(found, ~is_kept & may_update)
            is_kept |= F.col(DELETED)
        if changes.envelope and not own:  # Events of a DataFrame outside of a pipeline.
            is_kept |= F.col("op") == "d"
        return replace(found, frame=found.frame.where(is_kept).drop(name))


def _delete_rows(changes: Changes, is_left_out: Column) -> Changes:
    """Turn updates into deletes."""
    from pyspark.sql import functions as F

    frame = changes.frame
    columns = {DELETED: F.col(DELETED) | is_left_out}
    for name in [OP, *(["op"] if changes.envelope else [])]:
        columns[name] = F.when(is_left_out, F.lit("d")).otherwise(F.col(name))
    if changes.envelope:
        columns["after"] = F.when(~is_left_out, F.col("after"))
    return replace(changes, frame=frame.withColumns(columns))
