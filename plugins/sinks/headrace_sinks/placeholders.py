"""Debezium's placeholder in records: their readers keep the value of a column that a change event omits.

Rows have null in place of such values, and list them in UNAVAILABLE. In a record, null would be the new value.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pydantic import Field, field_validator

from headrace.sdk import DataError, HeadraceError, SinkConfig, changes as C
from headrace.sdk.columns import quote_name
from headrace.sdk.error_text import full_text, text_after_raised

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType

_HEX = "hex:"
_MARK, _END = "<headrace-no-placeholder>", "<end>"


class PlaceholderOptions(SinkConfig):
    """Option of sinks that write records."""

    unavailable_value_placeholder: str = Field(
        "__debezium_unavailable_value", alias="unavailable.value.placeholder", min_length=1
    )
    """Placeholder of values that an event omits because they are unchanged, as readers of the records expect it. As in Debezium,
    ``hex:`` and hexadecimal digits are bytes."""

    @field_validator("unavailable_value_placeholder")
    @classmethod
    def _check_hex(cls, value: str) -> str:
        if value.startswith(_HEX) and not re.fullmatch("(?:[0-9A-Fa-f]{2})+", value.removeprefix(_HEX)):
            raise ValueError(f"after {_HEX!r}, two hexadecimal digits per byte are expected")
        return value

    @property
    def placeholder(self) -> bytes:
        """Bytes of the placeholder."""
        text = self.unavailable_value_placeholder
        return bytes.fromhex(text.removeprefix(_HEX)) if text.startswith(_HEX) else text.encode()


def write_placeholders(rows: DataFrame, placeholder: bytes) -> DataFrame:
    """Return rows with the placeholder in place of unavailable values, and without UNAVAILABLE.

    A task fails if the type of such a value has no placeholder; ``explain_placeholder_error`` recognizes the error.
    """
    from pyspark.sql import functions as F, types as T

    if C.UNAVAILABLE not in rows.columns:
        return rows
    columns: dict[str, Column] = {}
    for field in rows.drop(*[name for name in rows.columns if name.startswith(C.PREFIX)]).schema:
        column = F.col(quote_name(field.name))
        if field.name in C.IMAGES and isinstance(field.dataType, T.StructType):
            cells = [
                _fill(column.getField(f.name), f.dataType, f"{field.name}.{f.name}", placeholder).alias(f.name)
                for f in field.dataType
            ]
            if cells:
                column = F.when(column.isNotNull(), F.struct(*cells))
        columns[field.name] = _fill(column, field.dataType, field.name, placeholder)
    return rows.withColumns(columns).drop(C.UNAVAILABLE)


def explain_placeholder_error(error: BaseException) -> HeadraceError | None:
    """Return the error for a value whose type has no placeholder; None for others."""
    found = text_after_raised(_MARK, full_text(error))
    if found is None:
        return None
    return DataError(
        f"a change event omits the value of {found.partition(_END)[0]}, and Debezium has no placeholder for this type",
        fix="remove the column with `drop`, and convert or compute it where the records are read",
    )


def _fill(column: Column, data_type: DataType, path: str, placeholder: bytes) -> Column:
    """Return a column with the placeholder in rows that list its path."""
    from pyspark.sql import functions as F

    value = make_placeholder(data_type, placeholder)
    if value is None:
        value = F.raise_error(F.lit(f"{_MARK}{path} ({data_type.simpleString()}){_END}"))
    return F.when(F.array_contains(C.UNAVAILABLE, path), value).otherwise(column)


def make_placeholder(data_type: DataType, placeholder: bytes) -> Column | None:
    """Return the placeholder as Debezium writes it for a type; None if there is none."""
    from pyspark.sql import functions as F, types as T

    text = F.lit(placeholder.decode(errors="replace"))
    if isinstance(data_type, T.StringType):
        return text
    if isinstance(data_type, T.BinaryType):
        return F.lit(placeholder)
    if isinstance(data_type, T.MapType) and {type(data_type.keyType), type(data_type.valueType)} == {T.StringType}:
        return F.create_map(text, text)
    return _make_array(data_type.elementType, placeholder) if isinstance(data_type, T.ArrayType) else None


def _make_array(element: DataType, placeholder: bytes) -> Column | None:
    """Return the placeholder as an array: one text or binary value, or one number or date for each byte."""
    from pyspark.sql import functions as F, types as T

    value = make_placeholder(element, placeholder) if isinstance(element, T.StringType | T.BinaryType) else None
    if value is not None:
        return F.array(value)
    numbers = [F.lit(byte) for byte in memoryview(placeholder).cast("b")]  # Java's bytes are signed.
    if isinstance(element, T.NumericType):
        return F.array(*[number.cast(element) for number in numbers])
    return F.array(*[F.date_from_unix_date(number) for number in numbers]) if isinstance(element, T.DateType) else None
