"""Masks of fields in structs, lists and maps."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from headrace.sdk import Changes, DataError
from headrace.sdk.changes import IMAGES, PREFIX
from headrace.sdk.columns import find_field, find_opaque_type, list_row_texts, name_fold, quote_name
from headrace.sdk.rows import KEYS, reject_rows
from headrace_transforms.value_mask import ValueMask

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import DataType

    Fold = Callable[[str], str]
    Path = tuple[str, ...]


@dataclass(frozen=True)
class HiddenField:
    """Field of a row that a rule hides: its place in a column of the frame."""

    rule: str
    """Name of the rule."""
    column: str
    """Column of the frame: a row image, or a column of a flat row."""
    path: Path
    """Path in the column; empty for a column that was taken from a field."""
    kind: DataType
    """Type of the field."""
    is_image: bool
    """Whether the column is a row image."""
    names: Path
    """The path without the elements of lists that are structs, as tags name a field."""

    @property
    def full_name(self) -> str:
        """Path from the row's column."""
        return ".".join(self.names if self.is_image else (self.column, *self.names))


def find_hidden_fields(changes: Changes, names: Collection[str], masked: Collection[str]) -> list[HiddenField]:
    """Return the fields that rules hide. ``names``: those of all rules; ``masked``: columns that are masked as a whole.

    A mask of a column applies to a field of it that ``add.fields`` took from a row image. DataError for a field of a key column, and
    for a field that may be inside a text, where a mask does not find it.
    """
    fold = name_fold(changes.frame.sparkSession)
    whole = set(map(fold, masked))
    fields = [
        field
        for name in names
        for field in _find_places(changes, name, fold)
        if fold(field.path[0] if field.is_image else field.column) not in whole
    ]
    if key := next((field.rule for field in fields if field.column in KEYS), None):
        raise DataError(
            f"{key!r} is a field of the key", fix="mask the whole column with sha256, sha512 or hmac_sha256"
        )
    for name in names:
        _reject_hidden_place(changes, name, whole, fold)
    fields = [field for field in fields if not any(_contains(other, field) for other in fields)]
    # Two rules may name one place: the row's column, and a column that was taken from it. The first rule applies.
    return list({(field.column, field.path): field for field in reversed(fields)}.values())[::-1]


def hide_fields(changes: Changes, masks: Mapping[HiddenField, ValueMask]) -> Changes:
    """Return the changes with masked fields. A change with a value that a mask does not take becomes a dead letter."""
    tests, columns = {}, dict[str, "Column"]()
    for field, mask in masks.items():
        kind, column = changes.frame.schema[field.column].dataType, _column(field.column)
        if mask.fits is not None and field.column != "before":  # A row before the change is not written.
            text = f"the column `{field.rule}` is not {mask.takes}, which its mask requires"
            tests[text] = _rejects(column, kind, field.path, mask)
        columns[field.column] = _apply(columns.get(field.column, column), kind, field.path, mask)
    changes = reject_rows(changes, tests)
    return replace(changes, frame=changes.frame.withColumns(columns))


def _find_places(changes: Changes, name: str, fold: Fold) -> Iterator[HiddenField]:
    for column, path, is_image in _list_columns(changes, name, fold):
        kind = changes.frame.schema[column].dataType
        if found := find_field(kind, path, fold):
            yield HiddenField(name, column, *found, is_image=is_image, names=tuple(_list_names(kind, found[0])))


def _list_names(kind: DataType, path: Path) -> Iterator[str]:
    """Yield the steps of a path without the elements of lists that are structs."""
    from pyspark.sql.types import ArrayType, MapType, StructType

    for number, step in enumerate(path, 1):
        if isinstance(kind, ArrayType):
            kind = kind.elementType
            if isinstance(kind, StructType) and number < len(path):
                continue
        else:
            kind = kind.valueType if isinstance(kind, MapType) else kind[step].dataType  # type: ignore[index]
        yield step


def _list_columns(changes: Changes, name: str, fold: Fold) -> Iterator[tuple[str, Path, bool]]:
    """Yield the columns that may have the field of a rule, the path in the column, and whether it is a row image."""
    path, texts = tuple(name.split(".")), list_row_texts(changes.origins, changes.frame.schema)
    for column in changes.frame.schema.names:
        origin = () if column in texts else changes.origins.get(column, ())
        is_copy = len(origin) == 1 and origin[0] in IMAGES
        if is_copy or column in KEYS or (changes.envelope and column in IMAGES):
            if len(path) > 1:
                yield column, path, True
        elif not (changes.envelope or column.startswith(PREFIX)):
            bases = [(column,), *([origin[1:]] if origin and origin[0] in IMAGES else [])]
            rests = [rest for base in bases if (rest := _find_rest(path, base, fold)) is not None]
            yield from ((column, rest, False) for rest in rests[:1])


def _reject_hidden_place(changes: Changes, name: str, masked: Collection[str], fold: Fold) -> None:
    """Raise DataError if the field of a rule may be in a text, or in a map, which has no such field: no mask finds it there."""
    for column, path, is_image in _list_columns(changes, name, fold):
        kind, whole = changes.frame.schema[column].dataType, path[0] if is_image else column
        if fold(whole) in masked or fold(name) in masked:
            continue
        if inner := find_opaque_type(kind, path, fold, least=1 if is_image else 0):
            raise DataError(
                f"the column {whole!r} has a {inner.simpleString()}, in which {name!r} may be, and no mask finds it there",
                fix=f"mask the whole column {whole!r}, or limit this mask to other tables with `tables`",
            )


def _find_rest(path: Path, base: Path, fold: Fold) -> Path | None:
    """Return the path of a rule below a column that has the values of ``base``. Empty: the rule hides the column.

    None: the rule hides no field of the column, or the column is not a field: masks of columns hide it.
    """
    shared = min(len(path), len(base))
    if max(len(path), len(base)) < 2 or [*map(fold, path[:shared])] != [*map(fold, base[:shared])]:
        return None
    return path[len(base) :] if len(path) > len(base) or len(base) > 1 else None


def _contains(other: HiddenField, field: HiddenField) -> bool:
    """Return whether a field is in another one, whose mask then replaces it."""
    length = len(other.path)
    return other.column == field.column and length < len(field.path) and other.path == field.path[:length]


def _apply(value: Column, kind: DataType, path: Sequence[str], mask: ValueMask) -> Column:
    from pyspark.sql import functions as F
    from pyspark.sql.types import ArrayType, MapType

    if not path:
        return mask(value)
    step, rest = path[0], path[1:]
    if isinstance(kind, ArrayType):
        inner = kind.elementType
        return F.transform(value, lambda item: _apply(item, inner, rest, mask))
    if isinstance(kind, MapType):
        inner = kind.valueType
        return F.transform_values(value, lambda _, item: _apply(item, inner, rest, mask))
    inner = kind[step].dataType  # type: ignore[index]
    return value.withField(quote_name(step), _apply(value.getField(step), inner, rest, mask))


def _rejects(value: Column, kind: DataType, path: Sequence[str], mask: ValueMask) -> Column:
    from pyspark.sql import functions as F
    from pyspark.sql.types import ArrayType, MapType

    if not path:
        return mask.rejects(value)
    step, rest = path[0], path[1:]
    if isinstance(kind, ArrayType | MapType):
        inner = kind.elementType if isinstance(kind, ArrayType) else kind.valueType
        items = value if isinstance(kind, ArrayType) else F.map_values(value)
        return F.exists(items, lambda item: _rejects(item, inner, rest, mask))
    return _rejects(value.getField(step), kind[step].dataType, rest, mask)  # type: ignore[index]


def _column(name: str) -> Column:
    from pyspark.sql import functions as F

    return F.col(quote_name(name))
