"""Paths of fields in structs, lists and maps: ``address.street``, ``phones.element``, ``labels.value``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

#: Names of the elements of a list and of the values of a map.
ELEMENT, VALUE = "element", "value"
#: Types of values in which a field may be that the type does not show: a document in text, and a map, whose keys are data.
_OPAQUE = ("string", "binary", "map", "variant")

#: Fields of an event that are a whole row, and the one that has the values of a document which a change sets.
_ROWS, _SET_VALUES = (("before",), ("after",)), "updateDescription"


def find_field(
    kind: DataType, path: Sequence[str], fold: Callable[[str], str]
) -> tuple[tuple[str, ...], DataType] | None:
    """Return the path in the type's spelling, and the field's type; None without such a field. ``fold``: case of names.

    ``element`` may be omitted before the field of a list's element: ``phones.number`` is ``phones.element.number``.
    """
    from pyspark.sql.types import ArrayType, MapType, StructType

    if not path:
        return (), kind
    first, rest = fold(path[0]), path[1:]
    if isinstance(kind, ArrayType):
        step, inner, rest = ELEMENT, kind.elementType, rest if first == ELEMENT else path
    elif isinstance(kind, MapType) and first == VALUE:
        step, inner = VALUE, kind.valueType
    elif isinstance(kind, StructType) and (names := [name for name in kind.names if fold(name) == first]):
        step, inner = names[0], kind[names[0]].dataType
    else:
        return None
    found = find_field(inner, rest, fold)
    return ((step, *found[0]), found[1]) if found else None


def find_opaque_type(
    kind: DataType, path: Sequence[str], fold: Callable[[str], str], *, least: int = 0
) -> DataType | None:
    """Return the type of the text or map in which the field of a path may be; None if the field exists, or cannot be in one.

    ``least``: steps of the path that must exist.
    """
    from pyspark.sql.types import ArrayType

    if find_field(kind, path, fold):
        return None
    found = (find_field(kind, path[:length], fold) for length in range(len(path) - 1, least - 1, -1))
    last = next((field[1] for field in found if field), None)
    while isinstance(last, ArrayType):
        last = last.elementType
    return last if last is not None and last.typeName() in _OPAQUE else None


def list_row_texts(origins: Mapping[str, tuple[str, ...]], schema: StructType) -> list[str]:
    """Return the columns with the values of a whole row in a text or map, where no mask finds the value of a column.

    ``origins``: column → the field of the event from which it was taken.
    """
    from pyspark.sql.types import StructType

    return [
        name
        for name, path in origins.items()
        if (path in _ROWS and not isinstance(schema[name].dataType, StructType))
        or (path[0] == _SET_VALUES and path[-1] != "removedFields")  # which has no values
    ]


def list_field_paths(name: str, kind: DataType) -> Iterator[str]:
    """Yield the path of a column, and those of all fields in it. ``element`` is omitted before the field of a list's element."""
    from pyspark.sql.types import ArrayType, MapType, StructType

    yield name
    if isinstance(kind, StructType):
        for field in kind:
            yield from list_field_paths(f"{name}.{field.name}", field.dataType)
    elif isinstance(kind, MapType):
        yield from list_field_paths(f"{name}.{VALUE}", kind.valueType)
    elif isinstance(kind, ArrayType):
        is_struct = isinstance(kind.elementType, StructType)
        paths = list_field_paths(name if is_struct else f"{name}.{ELEMENT}", kind.elementType)
        yield from (path for path in paths if path != name)
