"""Envelopes → rows, with the options of Debezium's ExtractNewRecordState."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, field_validator

from headrace.config.base import Config
from headrace.contracts.changes import DELETED, KEY, Changes, quoted
from headrace.contracts.transform import Transform

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import StructType

#: Where ExtractNewRecordState looks for a field that is named without its struct.
_ROOT = ("op", "ts_ms", "ts_us", "ts_ns")
_TRANSACTION = ("id", "total_order", "data_collection_order")
_DELETED_FIELD = "__deleted"


class UnwrapConfig(Config):
    """Options of Debezium's ExtractNewRecordState, under their own names."""

    #: What a delete becomes: ``tombstone``, ``rewrite-with-tombstone`` and ``delete-to-tombstone`` as Debezium's, where a
    #: tombstone removes the row; ``rewrite`` keeps the row and says so in ``__deleted``; ``drop`` leaves deletes out.
    delete_handling: Literal["drop", "tombstone", "rewrite", "rewrite-with-tombstone", "delete-to-tombstone"] = Field(
        "tombstone", alias="delete.tombstone.handling.mode"
    )
    #: Fields of the envelope to add to the row, comma separated: ``op``, ``source.ts_ms``, ``transaction.id:tx``.
    add_fields: str = Field("", alias="add.fields")
    #: What the added fields' names begin with.
    add_fields_prefix: str = Field("__", alias="add.fields.prefix")

    @field_validator("add_fields")
    @classmethod
    def _syntax(cls, value: str) -> str:
        _added(value)
        return value


@dataclass(frozen=True)
class _Added:
    """One item of ``add.fields``: struct (None: to be found), field, alias."""

    struct: str | None
    field: str
    alias: str | None

    def name(self, prefix: str) -> str:
        return prefix + (self.alias or (f"{self.struct}_{self.field}" if self.struct else self.field))


class Unwrap(Transform):
    """``unwrap: {}``: a delete removes the row."""

    name = "unwrap"
    api_version = 1
    Config = UnwrapConfig
    config: UnwrapConfig

    def __init__(self, config: Any = None, **options: Any) -> None:
        super().__init__(config, **options)
        self._keeps_deleted = self.config.delete_handling == "rewrite"
        self.needs_before = self._keeps_deleted
        self.asks_deletes = self.config.delete_handling not in ("rewrite", "drop")

    def apply(self, changes: Changes) -> Changes:
        frame = changes.frame
        if self.config.delete_handling == "drop" and DELETED in frame.columns:
            frame = frame.where(~_column(DELETED))
        if not changes.envelope:
            return Changes(self._soft(frame) if self._keeps_deleted else frame, envelope=False)
        return self._rows(Changes(frame, envelope=True))

    def _rows(self, changes: Changes) -> Changes:
        from pyspark.sql import functions as F

        schema, own = changes.frame.schema, changes.own_columns
        images = {name: _names(schema, name) for name in ("before", "after") if name in changes.frame.columns}
        deleted = _column(DELETED) if DELETED in own else F.coalesce(_column("op") == "d", F.lit(False))
        keys = changes.key_columns
        rows = [self._cell(name, images, deleted, name in keys).alias(name) for name in changes.row_columns]
        if self._keeps_deleted and _DELETED_FIELD not in changes.row_columns:
            rows.append(F.when(deleted, "true").otherwise("false").alias(_DELETED_FIELD))
        taken = {*changes.row_columns, _DELETED_FIELD}
        for added in _added(self.config.add_fields):
            column, name = _found(added, schema), added.name(self.config.add_fields_prefix)
            if column is not None and name not in taken:
                rows.append(column.alias(name))
        kept = [self._own(name) for name in own]
        if not own:  # on a DataFrame of one's own nobody removes rows later: a delete that keeps no row is left out here
            frame = changes.frame if self._keeps_deleted else changes.frame.where(~deleted)
            return Changes(frame.select(*rows), envelope=False)
        return Changes(changes.frame.select(*rows, *kept), envelope=False)

    def _cell(self, name: str, images: Mapping[str, list[str]], deleted: Column, is_key: bool) -> Column:
        """A row's value: of ``after``; of a deleted row, the key's, and else what ``before`` has, for a row that stays."""
        from pyspark.sql import functions as F

        after = _column("after").getField(name) if name in images.get("after", ()) else None
        before = _column("before").getField(name) if name in images.get("before", ()) else None
        gone = F.coalesce(_column(KEY).getField(name), before) if is_key and before is not None else _column(KEY).getField(name) if is_key else before
        if gone is None or (not is_key and not self._keeps_deleted):
            gone = F.lit(None)
        return F.when(deleted, gone).otherwise(after if after is not None else F.lit(None))

    def _soft(self, frame: Any) -> Any:
        from pyspark.sql import functions as F

        if DELETED not in frame.columns:
            return frame
        if _DELETED_FIELD not in frame.columns:
            frame = frame.withColumn(_DELETED_FIELD, F.when(_column(DELETED), "true").otherwise("false"))
        return frame.withColumn(DELETED, F.lit(False))

    def _own(self, name: str) -> Column:
        from pyspark.sql import functions as F

        return F.lit(False).alias(DELETED) if name == DELETED and self._keeps_deleted else _column(name)


def _added(text: str) -> list[_Added]:
    items = []
    for item in filter(None, (part.strip() for part in text.split(","))):
        path, _, alias = item.partition(":")
        struct, _, field = path.rpartition(".")
        if not field or "." in struct:
            raise ValueError(f"{item!r} is not a field: write `op`, `source.ts_ms` or `source.ts_ms:alias`")
        items.append(_Added(struct or None, field, alias or None))
    return items


def _found(added: _Added, schema: StructType) -> Column | None:
    """The envelope's column for an added field; None when the envelope has none."""
    if added.struct:
        return _column(added.struct).getField(added.field) if added.field in _names(schema, added.struct) else None
    if added.field in _ROOT:
        return _column(added.field) if added.field in schema.names else None
    if added.field in _TRANSACTION:
        return _column("transaction").getField(added.field) if added.field in _names(schema, "transaction") else None
    if added.field in _names(schema, "source"):
        return _column("source").getField(added.field)
    return _column(added.field) if added.field in schema.names else None


def _names(schema: StructType, column: str) -> list[str]:
    return list(getattr(schema[column].dataType, "names", [])) if column in schema.names else []


def _column(name: str) -> Column:
    from pyspark.sql import functions as F

    return F.col(quoted(name))
