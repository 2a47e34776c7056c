"""Text columns that hold JSON become structs, arrays or plain values."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pydantic import Field, field_validator

from headrace.sdk import Changes, DataError, Transform, TransformConfig, changes as C
from headrace.sdk.columns import quote_name
from headrace.sdk.rows import list_fields, list_images, reject_rows, row_types
from headrace.sdk.transform import ColumnName
from headrace_transforms.json_columns import JsonColumnReader, parse_type, read_as, read_inferred
from headrace_transforms.row_images import list_copies, map_images

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

#: array<string>: the expanded columns that had unreadable text in the row before the change. ``explode`` reads it.
UNREADABLE_BEFORE = f"{C.PREFIX}unreadable_before"
_PARSED, _DETAIL = f"{C.PREFIX}parsed_", f"{C.PREFIX}misfit"


class ExpandConfig(TransformConfig):
    """Columns to expand."""

    columns: dict[ColumnName, str | None] | tuple[ColumnName, ...] = Field(min_length=1)
    """Column → its type in Spark SQL: ``ARRAY<STRUCT<sku: STRING, quantity: INT>>``, or ``city STRING, zip STRING`` for a struct.
    Without a type, or in a list of columns: the type is inferred from the values and kept. Fields that a given type lacks are
    left out.
    """

    @field_validator("when")
    @classmethod
    def _no_condition(cls, value: str | None) -> str | None:
        if value is not None:
            raise ValueError("a column has one type in all rows: select tables with `tables`")
        return value

    @property
    def types(self) -> Mapping[str, str | None]:
        """Column → its type; None: inferred."""
        return self.columns if isinstance(self.columns, dict) else dict.fromkeys(self.columns)


class Expand(Transform):
    """``expand: {columns: {items: "ARRAY<STRUCT<sku: STRING>>"}}``. A value that does not fit makes its record a dead letter."""

    name = "expand"
    api_version = 1
    Config = ExpandConfig
    config: ExpandConfig

    def __init__(self, config: Any = None, **options: Any) -> None:
        super().__init__(config, **options)
        self._readers: dict[str, JsonColumnReader] = {}

    def check(self, spark: SparkSession | None = None) -> None:
        super().check(spark)
        for text in filter(None, self.config.types.values()):
            if spark is not None:
                parse_type(text, "columns")

    def reads(self) -> Collection[str]:
        return self.config.types

    def apply(self, changes: Changes) -> Changes:
        types = row_types(changes)
        for column, name in changes.find_columns(self.config.types).items():
            kind = types[column].simpleString()
            if column in changes.key_columns:
                raise DataError(
                    f"{column!r} is part of the key, which identifies the row", fix="leave it out of `columns`"
                )
            if kind not in ("string", "void"):
                raise DataError(f"the column {column!r} is {kind}, and JSON is text", fix="leave it out of `columns`")
            changes = changes if kind == "void" else self._expand(changes, column, name)
        return changes

    def _expand(self, changes: Changes, column: str, name: str) -> Changes:
        from pyspark.sql import functions as F

        texts = _find_texts(changes, column)
        reader = self._open(changes, name, list(texts.values()))
        if reader is None:
            return _put(changes, column, dict.fromkeys(texts, F.lit(None)))
        frame = changes.frame
        for image, text in texts.items():
            frame = reader.parse(frame, text, f"{_PARSED}{image}")
        parsed = replace(changes, frame=frame)
        if changes.origins.get(column, ("after",))[0] == "after":
            parsed = _reject(parsed, reader, column, texts)
        values = {image: F.col(f"{_PARSED}{image}") for image in texts}
        is_left_out = reader.kind is None and changes.schemas is not None
        result = _put(parsed, column, {} if is_left_out else values)
        return replace(result, frame=result.frame.drop(*[n for n in result.frame.columns if n.startswith(_PARSED)]))

    def _open(self, changes: Changes, name: str, texts: list[Column]) -> JsonColumnReader | None:
        """Return the reader of a column; None if its type is inferred, and no data may be read now."""
        text = self.config.types[name]
        if text is None:
            is_planning = changes.schemas is None and changes.table is not None
            return None if is_planning else read_inferred(changes, name, texts)
        if text not in self._readers:  # Opening a reader runs a Spark job.
            self._readers[text] = read_as(changes.frame.sparkSession, parse_type(text, "columns"))
        return self._readers[text]


def _find_texts(changes: Changes, column: str) -> dict[str | None, Column]:
    """Return row image (None: a flat row) → the text of a column. Copies of row images come last."""
    from pyspark.sql import functions as F

    images = list_images(changes) if changes.envelope else list_copies(changes)
    images = [image for image in images if image and column in list_fields(changes, image)]
    texts: dict[str | None, Column] = {} if changes.envelope else {None: F.col(quote_name(column))}
    return texts | {image: F.col(quote_name(image)).getField(column) for image in images if image}


def _reject(changes: Changes, reader: JsonColumnReader, column: str, texts: Mapping[str | None, Column]) -> Changes:
    """Turn changes into dead letters whose new row has unreadable text, and mark those whose row before has it."""
    from pyspark.sql import functions as F

    is_bad = {image: F.col(f"{_PARSED}{image}_error").isNotNull() for image in texts}
    frame = changes.frame
    if "before" in texts:
        known = [F.col(UNREADABLE_BEFORE)] if UNREADABLE_BEFORE in frame.columns else []
        found = F.when(is_bad["before"], F.array(F.lit(column))).otherwise(F.array().cast("array<string>"))
        frame = frame.withColumn(UNREADABLE_BEFORE, F.concat(*known, found))
    written = next((image for image in texts if image != "before"), "before")
    if written == "before":
        return replace(changes, frame=frame)
    if C.DETAIL in frame.columns:
        frame = reader.locate_errors(frame, texts[written], column, _DETAIL)
        is_first = F.col(C.ERROR).isNull() & is_bad[written] & ~F.col(C.DELETED)
        detail = F.coalesce(F.col(C.DETAIL), F.when(is_first, F.col(_DETAIL)))
        frame = frame.withColumn(C.DETAIL, detail).drop(_DETAIL)
    reason = f"the column `{column}` is not JSON of its type"
    return reject_rows(replace(changes, frame=frame), {reason: is_bad[written]})


def _put(changes: Changes, column: str, values: Mapping[str | None, Column]) -> Changes:
    """Return the changes with values of a column in place of its text; without the column if there are none."""
    rows = (None, C.UNAVAILABLE, *(C.IMAGES if changes.envelope else list_copies(changes)))

    def put(image: str | None, row: dict[str, Column]) -> Mapping[str, Column]:
        if image in values:
            return {name: values[image] if name == column else cell for name, cell in row.items()}
        is_row = image in rows
        return {name: cell for name, cell in row.items() if name != column} if is_row and not values else row

    return map_images(changes, put)
