"""Envelopes → rows, with the options of Debezium's ExtractNewRecordState."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, field_validator, model_validator

from headrace.sdk import Changes, Config, DataError, Transform
from headrace.sdk.changes import DELETED, ERROR, IMAGES, KEY, PREFIX
from headrace.sdk.columns import fold_name, match_names, quote_name, select_texts

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType, StructType

#: Where ExtractNewRecordState looks for a field that is named without its struct.
_ROOT = ("op", "ts_ms", "ts_us", "ts_ns")
_TRANSACTION = ("id", "total_order", "data_collection_order")
_DELETED_FIELD = "__deleted"
_CELL = PREFIX + "cell_"


#: Options of ExtractNewRecordState that do not apply to tables.
_EXPLAINED = {
    **dict.fromkeys(
        ("add.headers", "add.headers.prefix"),
        ("`add.headers` adds headers, which a table does not have", "add the fields as columns: `add.fields`"),
    ),
    **{
        name: (f"`{name}` is a deprecated option", "use `delete.tombstone.handling.mode`")
        for name in ("drop.tombstones", "delete.handling.mode")
    },
    "route.by.field": (
        "`route.by.field` selects a topic, not a table",
        "set `target:` in a rule of `tables:`",
    ),
}


class UnwrapConfig(Config):
    """Options of Debezium's ExtractNewRecordState, under their original names."""

    explained = _EXPLAINED

    delete_handling: Literal["drop", "tombstone", "rewrite", "rewrite-with-tombstone", "delete-to-tombstone"] = Field(
        "tombstone", alias="delete.tombstone.handling.mode"
    )
    """Handling of deletes. ``tombstone``, ``delete-to-tombstone`` and ``rewrite-with-tombstone`` remove the row; the last one
    adds the column ``__deleted`` to rows. ``rewrite`` keeps the row, and marks it in ``__deleted``. ``drop`` ignores deletes.
    """

    add_fields: str = Field("", alias="add.fields")
    """Fields of the envelope to add to the row, comma separated: ``op``, ``source.ts_ms``, ``transaction.id:tx``."""

    add_fields_prefix: str = Field("__", alias="add.fields.prefix")
    """Prefix of the added fields' names."""

    @field_validator("add_fields")
    @classmethod
    def _syntax(cls, value: str) -> str:
        _parse_fields(value)
        return value

    @model_validator(mode="after")
    def _free_names(self) -> UnwrapConfig:
        for item in _parse_fields(self.add_fields):
            if (name := item.name(self.add_fields_prefix)).lower().startswith(PREFIX):
                raise ValueError(f"{name!r} is not a valid column name")
        return self


@dataclass(frozen=True)
class _EnvelopeField:
    """Item of ``add.fields``: struct (None: to be looked up), field, alias."""

    struct: str | None
    field: str
    alias: str | None

    def name(self, prefix: str) -> str:
        return prefix + (self.alias or (f"{self.struct}_{self.field}" if self.struct else self.field))


class Unwrap(Transform):
    """``unwrap: {}``: a delete removes the row."""

    name = "unwrap"
    api_version = 1
    flattens = True
    Config = UnwrapConfig
    config: UnwrapConfig

    def __init__(self, config: Any = None, **options: Any) -> None:
        super().__init__(config, **options)
        mode = self.config.delete_handling
        self._flags_deleted = mode.startswith("rewrite")
        self._keeps_deleted = mode == "rewrite"
        self._fields = _parse_fields(self.config.add_fields)
        self.reads_before = self._keeps_deleted or any("before" in (f.struct, f.field) for f in self._fields)
        self.deletes_rows = mode not in ("rewrite", "drop")
        self.filters = mode == "drop"

    def apply(self, changes: Changes) -> Changes:
        frame = changes.frame
        if self.config.delete_handling == "drop" and DELETED in frame.columns:
            is_rejected = [_column(ERROR).isNotNull()] if ERROR in frame.columns else []
            changes = replace(changes, frame=frame.where(reduce(lambda a, b: a | b, is_rejected, ~_column(DELETED))))
        if not changes.envelope:
            return self._flat(changes)
        _refuse_documents(frame.schema)
        return self._rows(changes)

    def _rows(self, changes: Changes) -> Changes:
        from pyspark.sql import functions as F

        frame, own_columns = changes.frame, changes.own_columns
        deleted = _column(DELETED) if DELETED in own_columns else F.coalesce(_column("op") == "d", F.lit(False))
        # A key column that the row lacks is added, so that the row can be found later.
        names = dict.fromkeys([*changes.row_columns, *changes.key_columns])
        images = [_Image.of(frame, image, names) for image in ("after", KEY, "before") if image in frame.columns]
        columns: dict[str, Column | str] = {name: self._cell(images, name, deleted) for name in names}
        if self._flags_deleted:
            columns.setdefault(_DELETED_FIELD, _flag(deleted))
        origins = {}
        for item in self._fields:
            path, name = _find_field(item, frame), item.name(self.config.add_fields_prefix)
            if path is None:
                continue
            if fold_name(name) in {fold_name(taken) for taken in columns}:
                raise DataError(
                    f"`add.fields` adds a second column {name!r}", fix=f"give it another name: `{item.field}:alias`"
                )
            columns[name], origins[name] = reduce(lambda c, part: c.getField(part), path[1:], _column(path[0])), path
        if not own_columns:  # without an engine, no later step filters records that are not rows
            after = _column("after").isNotNull() if "after" in frame.columns else F.lit(False)
            frame = frame.where((after & ~deleted) | deleted if self._keeps_deleted else after & ~deleted)
        frame = _select(frame, {**columns, **{name: self._own_column(name) for name in own_columns}})
        return replace(changes, frame=frame, envelope=False, origins=origins)

    def _cell(self, images: Sequence[_Image], name: str, deleted: Column) -> Column | str:
        """Return a row's value: from ``after``; of a deleted row from the key, and from ``before`` if it stays or has no key.

        It is a SQL string if it is a field of ``after``, as most are.
        """
        from pyspark.sql import functions as F

        holders = {image.name: image for image in images if name in image.fields}
        keyless = all(image.name != KEY for image in images)
        takes_before = "before" in holders and (KEY in holders or keyless or self._keeps_deleted)
        if "after" in holders and KEY not in holders and not takes_before:
            return f"after.{quote_name(holders['after'].fields[name])}"  # null where the row is deleted
        values = {image.name: image.column.getField(image.fields[name]) for image in holders.values()}
        first = next(iter(holders.values()))
        null = F.lit(None).cast(first.types[first.fields[name]])
        key = [values[KEY]] if KEY in holders else []
        before = [values["before"]] if takes_before else []
        present = [values["after"]] if "after" in holders else []
        return F.when(deleted, F.coalesce(*key, *before, null)).otherwise(F.coalesce(*present, *key, null))

    def _flat(self, changes: Changes) -> Changes:
        frame = changes.frame
        if self._flags_deleted and DELETED in frame.columns:
            columns: dict[str, Column | str] = {name: self._own_column(name) for name in frame.columns}
            columns.setdefault(_DELETED_FIELD, _flag(_column(DELETED)))
            frame = _select(frame, columns)
        return replace(changes, frame=frame)

    def _own_column(self, name: str) -> str:
        return "false" if name == DELETED and self._keeps_deleted else quote_name(name)


@dataclass(frozen=True)
class _Image:
    """Row image of the envelope: its column, the types of its fields, and its spelling of the row's columns."""

    name: str
    column: Column
    types: Mapping[str, DataType]
    fields: Mapping[str, str]

    @classmethod
    def of(cls, frame: DataFrame, image: str, names: Iterable[str]) -> _Image:
        types = {field.name: field.dataType for field in getattr(frame.schema[image].dataType, "fields", ())}
        fields = {name: field for field, name in match_names(frame.sparkSession, names, types).items()}
        return cls(image, _column(image), types, fields)


def _refuse_documents(schema: StructType) -> None:
    """Raise DataError for envelopes whose row images are strings: their columns are unknown."""
    texts = [name for name in IMAGES if name in schema.names and schema[name].dataType.typeName() == "string"]
    if texts and not any(_field_names(schema, name) for name in IMAGES):
        raise DataError(
            "the events contain documents as strings (as from MongoDB) instead of rows",
            fix="flatten them with ExtractNewDocumentState of Debezium's MongoDB connector; or remove `unwrap` to store the "
            "events",
        )


def _select(frame: DataFrame, columns: Mapping[str, Column | str]) -> DataFrame:
    """Select the columns under their names. Columns that are not SQL strings are added first."""
    made = {f"{_CELL}{i}": column for i, column in enumerate(columns.values()) if not isinstance(column, str)}
    texts = [
        f"{column if isinstance(column, str) else f'{_CELL}{i}'} AS {quote_name(name)}"
        for i, (name, column) in enumerate(columns.items())
    ]
    return select_texts(frame.withColumns(made) if made else frame, texts)


def _flag(deleted: Column) -> Column:
    from pyspark.sql import functions as F

    return F.when(deleted, "true").otherwise("false")


def _parse_fields(text: str) -> list[_EnvelopeField]:
    items = []
    for item in filter(None, (part.strip() for part in text.split(","))):
        path, _, alias = item.partition(":")
        struct, _, field = path.rpartition(".")
        if not field or "." in struct:
            raise ValueError(f"{item!r} is not a field: write `op`, `source.ts_ms` or `source.ts_ms:alias`")
        items.append(_EnvelopeField(struct or None, field, alias or None))
    return items


def _find_field(item: _EnvelopeField, frame: DataFrame) -> tuple[str, ...] | None:
    """Return the path of an item of ``add.fields`` in the envelope; None if it is missing."""
    struct, schema, session = item.struct, frame.schema, frame.sparkSession
    if struct is None and item.field in _TRANSACTION:
        struct = "transaction"
    elif (
        struct is None
        and item.field not in _ROOT
        and match_names(session, [item.field], _field_names(schema, "source"))
    ):
        struct = "source"
    if struct is None:
        return next(((name,) for name in match_names(session, [item.field], schema.names)), None)
    return next(((struct, name) for name in match_names(session, [item.field], _field_names(schema, struct))), None)


def _field_names(schema: StructType, column: str) -> list[str]:
    return list(getattr(schema[column].dataType, "names", [])) if column in schema.names else []


def _column(name: str) -> Column:
    from pyspark.sql import functions as F

    return F.col(quote_name(name))
