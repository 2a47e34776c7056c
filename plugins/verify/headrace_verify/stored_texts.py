"""One text form of the values of two stored tables, as SQL of Spark for each."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, ClassVar

from headrace_verify.value_texts import (
    INTEGERS,
    SPARK_BOOLEAN,
    SPARK_BYTES,
    SPARK_DATE,
    SPARK_MICROS,
    SPARK_TEXT,
    TextForm,
    print_decimal,
    write_text,
)

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

#: Digits after the point of decimals that can be printed.
_MAX_SCALE = 36
_FLOATS, _MOMENTS = ("float", "double"), ("timestamp", "timestamp_ntz")
#: Both tables are read by the same Java, whose text of a number is exact.
_SPARK_DOUBLE = "cast(cast({c} as double) as string)"
_SAME: dict[tuple[str, str], TextForm] = {
    **{(one, other): TextForm(SPARK_TEXT, SPARK_TEXT) for one in INTEGERS for other in INTEGERS},
    **{(one, other): TextForm(_SPARK_DOUBLE, _SPARK_DOUBLE) for one in _FLOATS for other in _FLOATS},
    **{(one, other): TextForm(SPARK_MICROS, SPARK_MICROS) for one in _MOMENTS for other in _MOMENTS},
    ("boolean", "boolean"): TextForm(SPARK_BOOLEAN, SPARK_BOOLEAN),
    ("string", "string"): TextForm("{c}", "{c}", is_free=True),
    ("binary", "binary"): TextForm(SPARK_BYTES, SPARK_BYTES),
    ("date", "date"): TextForm(SPARK_DATE, SPARK_DATE),
}


class SparkSql:
    """SQL of Spark for texts."""

    noun: ClassVar[str] = "the other table"
    byte_length: ClassVar[str] = "octet_length"

    def quote(self, name: str) -> str:
        return "`" + name.replace("`", "``") + "`"

    def concat(self, *texts: str) -> str:
        return f"concat({', '.join(texts)})"


def find_stored_form(other: DataType, stored: DataType, depth: int = 0) -> TextForm | None:
    """Return the form for a column of two tables; None if the values of the types have no common form.

    ``depth``: number of arrays and maps around the value; it names the variable of a lambda.
    """
    from pyspark.sql.types import ArrayType, MapType, StructType

    if isinstance(other, ArrayType) and isinstance(stored, ArrayType):
        return _array_form(find_stored_form(other.elementType, stored.elementType, depth + 1), f"e{depth}")
    if isinstance(other, MapType) and isinstance(stored, MapType):
        key = find_stored_form(other.keyType, stored.keyType, depth + 1)
        return _map_form(key, find_stored_form(other.valueType, stored.valueType, depth + 1), f"e{depth}")
    if isinstance(other, StructType) and isinstance(stored, StructType):
        return _struct_form(other, stored, depth)
    return _SAME.get((other.typeName(), stored.typeName())) or _number_form(other, stored)


def _number_form(other: DataType, stored: DataType) -> TextForm | None:
    """Return the form of decimals with different scales, and of integers and decimals."""
    source, text = _print_number(other), _print_number(stored)
    return TextForm(source, text) if source and text else None


def _print_number(kind: DataType) -> str | None:
    if kind.typeName() in INTEGERS:
        return SPARK_TEXT
    scale = getattr(kind, "scale", None)
    if kind.typeName() != "decimal" or scale is None or scale > _MAX_SCALE:
        return None
    text = print_decimal(scale, scale)
    return f"regexp_replace({text}, '[.]?0+$', '')" if scale else text  # 1.50 is 1.5


def _array_form(item: TextForm | None, variable: str) -> TextForm | None:
    if item is None:
        return None
    return _form(join_items("{c}", variable, text) for text in _write_both(item, variable))


def _map_form(key: TextForm | None, value: TextForm | None, variable: str) -> TextForm | None:
    """Return the form of maps: their entries, sorted."""
    if key is None or value is None:
        return None
    keys, values = _write_both(key, f"{variable}.key"), _write_both(value, f"{variable}.value")
    entries = (f"concat({one}, '=', {other})" for one, other in zip(keys, values, strict=True))
    return _form(join_items("map_entries({c})", variable, entry, sort=True) for entry in entries)


def _struct_form(other: StructType, stored: StructType, depth: int) -> TextForm | None:
    """Return the form of structs with the same fields, in any order."""
    theirs, ours = ({field.name.lower(): field for field in struct} for struct in (other, stored))
    if theirs.keys() != ours.keys():
        return None
    texts = []
    for name, field in ours.items():
        form = find_stored_form(theirs[name].dataType, field.dataType, depth)
        if form is None:
            return None
        texts.append(_write_both(form, *("{c}." + SparkSql().quote(side.name) for side in (theirs[name], field))))
    joined = (", ".join(side) for side in zip(*texts, strict=True))
    return _form(f"if({{c}} is null, null, concat_ws(',', {fields}))" for fields in joined)


def _form(texts: Iterable[str]) -> TextForm:
    source, stored = texts
    return TextForm(source, stored)


def join_items(items: str, variable: str, text: str, *, sort: bool = False) -> str:
    """Return the SQL for the joined texts of an array's items; null for null."""
    texts = f"transform({items}, {variable} -> {text})"
    return f"concat('[', array_join({f'array_sort({texts})' if sort else texts}, ','), ']')"


def _write_both(form: TextForm, source: str, stored: str | None = None) -> tuple[str, str]:
    """Return the texts of a value within another one, for both tables. ``stored``: its SQL, if it is not that of ``source``."""
    sql, free = SparkSql(), form.is_free
    return (
        write_text(sql, form.source, source, is_free=free),
        write_text(sql, form.spark, stored or source, is_free=free),
    )
