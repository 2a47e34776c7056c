"""Envelopes → rows, with the options of Debezium's ExtractNewRecordState."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, ValidationInfo, field_validator, model_validator

from headrace.sdk import Changes, DataError, Transform, TransformConfig
from headrace.sdk.changes import DELETED, ERROR, HEADERS, IMAGES, KEY, PREFIX
from headrace.sdk.columns import fold_name, match_names, quote_name, select_texts
from headrace.sdk.events import header_value

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
    "route.by.field": (
        "`route.by.field` selects a topic by a column, and a delete has only the columns of its key",
        "split a topic by a field of its events: `tables: - {source: …, route.by.field: source.table}`",
    ),
}
#: Deprecated options: ``delete.handling.mode`` and ``drop.tombstones`` → ``delete.tombstone.handling.mode``.
_LEGACY_MODES = {
    ("drop", True): "drop",
    ("drop", False): "tombstone",
    ("none", True): "tombstone",
    ("none", False): "tombstone",
    ("rewrite", True): "rewrite",
    ("rewrite", False): "rewrite-with-tombstone",
}


class UnwrapConfig(TransformConfig):
    """Options of Debezium's ExtractNewRecordState, under their original names."""

    explained = _EXPLAINED

    delete_handling: Literal["drop", "tombstone", "rewrite", "rewrite-with-tombstone", "delete-to-tombstone"] | None = (
        Field(None, alias="delete.tombstone.handling.mode")
    )
    """Handling of deletes. ``tombstone`` (the default), ``delete-to-tombstone`` and ``rewrite-with-tombstone`` remove the row; the
    last one adds the column ``__deleted`` to rows. ``rewrite`` keeps the row, and marks it in ``__deleted``. ``drop`` ignores
    deletes.
    """

    legacy_delete_handling: Literal["drop", "rewrite", "none"] | None = Field(None, alias="delete.handling.mode")
    """Deprecated, as ``drop.tombstones``; ``delete.tombstone.handling.mode`` takes precedence over both. With one of them, the
    other has its default in Debezium, ``drop`` and ``true``.
    """

    drop_tombstones: bool | None = Field(None, alias="drop.tombstones")
    """Deprecated. ``false`` with ``drop`` or ``none`` is ``tombstone``, with ``rewrite`` it is ``rewrite-with-tombstone``."""

    add_fields: str = Field("", alias="add.fields")
    """Fields of the envelope to add to the row, comma separated: ``op``, ``source.ts_ms``, ``transaction.id:tx``."""

    add_fields_prefix: str = Field("__", alias="add.fields.prefix")
    """Prefix of the added fields' names."""

    add_headers: str = Field("", alias="add.headers")
    """The same as ``add.fields``, because a table has no headers: each becomes a column. A field of ``add.fields`` with the same
    name is added once.
    """

    add_headers_prefix: str = Field("__", alias="add.headers.prefix")
    """Prefix of the names of these columns."""

    drop_fields_header: str | None = Field(None, alias="drop.fields.header.name", min_length=1)
    """Header of the record with a list of columns, which are null in its row. Key columns are kept."""

    drop_fields_from_key: bool = Field(default=False, alias="drop.fields.from.key")
    """Only ``false``: a key column identifies the row."""

    drop_fields_keep_schema: bool = Field(default=True, alias="drop.fields.keep.schema.compatible")
    """Without effect: the table keeps a dropped column."""

    replace_null_with_default: bool = Field(default=False, alias="replace.null.with.default")
    """Only ``false``, unlike in Debezium: a null of the database stays null. ``compute`` replaces it: ``coalesce(size, 0)``."""

    @field_validator("add_fields", "add_headers")
    @classmethod
    def _syntax(cls, value: str) -> str:
        _parse_fields(value)
        return value

    @field_validator("when")
    @classmethod
    def _no_condition(cls, value: str | None) -> str | None:
        if value is not None:
            raise ValueError(
                "a table has either envelopes or rows: select tables with `tables`, and rows with `filter`"
            )
        return value

    @field_validator("drop_fields_from_key", "replace_null_with_default")
    @classmethod
    def _is_false(cls, value: bool, info: ValidationInfo) -> bool:  # noqa: FBT001 - a validator
        if value:
            reasons = {
                "drop_fields_from_key": "a key column identifies the row and cannot be dropped: set it to `false`",
                "replace_null_with_default": "a null of the database stays null: set it to `false`, and replace nulls with "
                "`compute: {columns: {size: 'coalesce(size, 0)'}}`",
            }
            raise ValueError(reasons[str(info.field_name)])
        return value

    @property
    def mode(self) -> str:
        """Handling of deletes, from the current or the deprecated options."""
        if self.delete_handling is not None:
            return self.delete_handling
        if self.legacy_delete_handling is None and self.drop_tombstones is None:
            return "tombstone"
        return _LEGACY_MODES[self.legacy_delete_handling or "drop", self.drop_tombstones is not False]

    def list_added_fields(self) -> dict[str, _EnvelopeField]:
        """Return column → field of the envelope. ValueError for a name that two fields would have."""
        columns: dict[str, _EnvelopeField] = {}
        for option, text, prefix in (
            ("add.fields", self.add_fields, self.add_fields_prefix),
            ("add.headers", self.add_headers, self.add_headers_prefix),
        ):
            own: dict[str, _EnvelopeField] = {}
            for item in _parse_fields(text):
                name = item.name(prefix)
                if name.lower().startswith(PREFIX):
                    raise ValueError(f"{name!r} is not a valid column name")
                others = {fold_name(other): field for other, field in (columns | own).items()}
                other = others.get(fold_name(name))
                if other and (name in own or (other.struct, other.field) != (item.struct, item.field)):
                    raise ValueError(f"`{option}` adds a second column {name!r}: name it `{item.field}:alias`")
                if not other:
                    own[name] = item
            columns |= own
        return columns

    @model_validator(mode="after")
    def _valid_fields(self) -> UnwrapConfig:
        self.list_added_fields()
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
        mode = self.config.mode
        self._flags_deleted = mode.startswith("rewrite")
        self._keeps_deleted = mode == "rewrite"
        self._fields = self.config.list_added_fields()
        self.reads_before = self._keeps_deleted or any("before" in (f.struct, f.field) for f in self._fields.values())
        self.deletes_rows = mode not in ("rewrite", "drop")
        self.filters = mode == "drop"

    def apply(self, changes: Changes) -> Changes:
        frame = changes.frame
        if self.config.mode == "drop" and DELETED in frame.columns:
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
        columns |= self._drop_fields(changes, columns)
        if self._flags_deleted:
            columns.setdefault(_DELETED_FIELD, _flag(deleted))
        origins = {}
        for name, item in self._fields.items():
            path = _find_field(item, frame)
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

    def _drop_fields(self, changes: Changes, columns: Mapping[str, Column | str]) -> dict[str, Column | str]:
        """Return the columns that a record's header can list, as null where it lists them."""
        from pyspark.sql import functions as F

        if self.config.drop_fields_header is None or HEADERS not in changes.own_columns:
            return {}
        text = header_value(self.config.drop_fields_header, HEADERS).cast("string")
        payload = F.from_json(text, "payload array<string>").getField(
            "payload"
        )  # with a schema, as the JSON converter writes it
        names = F.coalesce(F.from_json(text, "array<string>"), payload)
        keys = set(changes.key_columns)
        cells: dict[str, Column | str] = {}
        for name in (name for name in columns if name not in keys):
            value = columns[name]
            is_dropped = F.coalesce(F.array_contains(names, name), F.lit(False))
            cells[name] = F.when(~is_dropped, F.expr(value) if isinstance(value, str) else value)
        return cells

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
