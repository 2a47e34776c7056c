"""Types with which the batches of a table were decided. A repeated batch must not be decided with other types unnoticed."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyspark.sql.types import DataType, StructType

    from headrace.spark.storage import Folder


@dataclass(frozen=True)
class _Decided:
    """Types of a table's last batches, as they are stored.

    ``inferred``: column or nested field → type with which records without schemas were parsed; ``incompatible``: column → type of
    values that the table could not hold; ``revision``: how often one of these types was replaced.
    """

    revision: int = 0
    inferred: Mapping[str, str] = field(default_factory=dict)
    incompatible: Mapping[str, str] = field(default_factory=dict)


class TableTypes:
    """Types that decide which records of a table are rejected, in a file of the checkpoint."""

    def __init__(self, folder: Folder, name: str) -> None:
        self._folder, self._name = folder, f"{name}.json"
        self._decided = folder.load(self._name, _parse) or _Decided()

    def note(self, row: StructType, incompatible: Mapping[str, str], *, is_inferred: bool) -> int:
        """Record the types of a batch before its rows are written, and return their revision.

        Batches of one revision agree on the records that they reject. A new revision begins with a type that accepts other records
        than before. ``row``: the columns that the table can hold; ``incompatible``: column → type of its values, for the other columns.
        """
        types = {column.name: column.dataType.simpleString() for column in row}
        inferred = dict(_list_leaves(row)) if is_inferred else {}
        known = self._decided
        accepted = {name for name, kind in known.incompatible.items() if types.get(name) == kind}
        is_replaced = any(inferred.get(name, kind) != kind for name, kind in known.inferred.items())
        rejected = {name: kind for name, kind in known.incompatible.items() if name not in accepted}
        decided = replace(
            known,
            revision=known.revision + bool(accepted or is_replaced),
            inferred={**known.inferred, **inferred},
            incompatible={**rejected, **incompatible},
        )
        if decided != known:
            self._folder.write(self._name, json.dumps(asdict(decided), ensure_ascii=False))
            self._decided = decided
        return decided.revision


def _list_leaves(data_type: DataType, path: str = "") -> Iterator[tuple[str, str]]:
    """Yield the path of each plain value in a type, and its type. A new field of a struct changes no other path."""
    from pyspark.sql import types as T

    if isinstance(data_type, T.StructType):
        for column in data_type:
            yield from _list_leaves(column.dataType, f"{path}.{column.name}" if path else column.name)
    elif isinstance(data_type, T.ArrayType):
        yield from _list_leaves(data_type.elementType, f"{path}[]")
    elif isinstance(data_type, T.MapType):
        yield from _list_leaves(data_type.valueType, f"{path}{{}}")
    else:
        yield path, data_type.simpleString()


def _parse(text: str) -> _Decided:
    return _Decided(**json.loads(text))
