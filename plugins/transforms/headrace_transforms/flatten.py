"""Structs become columns, as with Kafka Connect's Flatten."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from headrace.sdk import Changes, DataError, Transform, TransformConfig
from headrace.sdk.changes import IMAGES, KEY, NEW_KEY, UNAVAILABLE
from headrace.sdk.columns import fold_name
from headrace.sdk.rows import row_types
from headrace.sdk.transform import ColumnName
from headrace_transforms.column_sources import add_moved, find_sources
from headrace_transforms.row_images import map_images

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import DataType

    #: Names below a column of the row.
    Path = tuple[str, ...]


class FlattenConfig(TransformConfig):
    """Structs to flatten, with all structs in them. Lists and maps stay as they are."""

    columns: tuple[ColumnName, ...] = ()
    """Columns that are structs. Default: all."""

    delimiter: str = "."
    """Text between the names of a struct and its field."""


class Flatten(Transform):
    """``flatten: {delimiter: _}``: the field ``city`` of the struct ``address`` becomes the column ``address_city``."""

    name = "flatten"
    api_version = 1
    Config = FlattenConfig
    config: FlattenConfig

    def reads(self) -> Collection[str]:
        return self.config.columns

    def apply_when(self, changes: Changes, condition: str) -> Changes:
        """Flatten the structs of some rows. The structs stay for the others, so a mask of a new column must hide the field, too."""
        pairs = [(".".join(path), self._join(path)) for paths in self._find_leaves(changes).values() for path in paths]
        return add_moved(super().apply_when(changes, condition), pairs)

    def apply(self, changes: Changes) -> Changes:
        leaves = self._find_leaves(changes)
        if not leaves:
            return changes
        self._reject_duplicates(changes, leaves)

        def flatten(image: str | None, row: dict[str, Column]) -> Mapping[str, Column]:
            is_flattened_copy = image in changes.origins and image in leaves
            if image in (KEY, NEW_KEY) or is_flattened_copy:
                return row
            cells: dict[str, Column] = {}
            for name, column in row.items():
                for path in leaves.get(name, [(name,)]):
                    cells[self._join(path)] = column
                    for field in () if image == UNAVAILABLE else path[1:]:
                        cells[self._join(path)] = cells[self._join(path)].getField(field)
            return cells

        return self._trace(changes, map_images(changes, flatten), leaves)

    def _find_leaves(self, changes: Changes) -> dict[str, list[Path]]:
        """Return struct to flatten → paths of the fields that become columns."""
        chosen = changes.find_columns(self.config.columns) if self.config.columns else changes.row_columns
        leaves = {
            name: list(_list_leaves(kind, (name,) if name in chosen else None))
            for name, kind in row_types(changes).items()
        }
        keys = set(map(fold_name, changes.key_columns))
        return {name: paths for name, paths in leaves.items() if paths and fold_name(name) not in keys}

    def _trace(self, changes: Changes, result: Changes, leaves: Mapping[str, list[Path]]) -> Changes:
        """Return the result with the origins of its new columns, and the columns from which they were made."""
        origins, derived = dict(result.origins), dict(changes.derived)
        for name, paths in leaves.items():
            origin = changes.origins.get(name, ())
            for path in paths:
                column, sources = self._join(path), find_sources(changes, [name])
                if origin and origin[0] in IMAGES:
                    # A mask of the row's column also applies to a value from a row image.
                    image, *fields = *origin, *path[1:]
                    origins[column] = image, self._join(tuple(fields))
                    sources = find_sources(changes, [*fields[:-1][:1], *changes.derived.get(name, ())])
                elif origin:
                    origins[column] = *origin, *path[1:]
                else:  # A mask of another field of the struct does not concern the column.
                    sources = (sources - {fold_name(name)}) | {fold_name(".".join(path))}
                derived[column] = sources
        moved = self._follow_moved(changes, leaves)
        return add_moved(replace(result, origins=origins, derived=derived, moved={}), moved)

    def _follow_moved(self, changes: Changes, leaves: Mapping[str, list[Path]]) -> Iterator[tuple[str, str]]:
        """Yield the places of one value, which an earlier ``when`` made, with the names of this transform."""
        joined = {".".join(path): self._join(path) for paths in leaves.values() for path in paths}
        for place, name in ((place, name) for place, names in changes.moved.items() for name in names):
            starts = (f"{place}.", f"{name}.")
            fields = {path.removeprefix(start) for start in starts for path in joined if path.startswith(start)}
            for rest in {f".{field}" for field in fields} or {""}:
                yield joined.get(place + rest, place + rest), joined.get(name + rest, name + rest)

    def _join(self, path: Path) -> str:
        return self.config.delimiter.join(path)

    def _reject_duplicates(self, changes: Changes, leaves: Mapping[str, list[Path]]) -> None:
        names = [self._join(path) for column in changes.row_columns for path in leaves.get(column, [(column,)])]
        folded = [fold_name(name) for name in names]
        for name in names:
            if folded.count(fold_name(name)) > 1:
                raise DataError(
                    f"two columns would be named {name!r}", fix="choose another `delimiter`, or rename one before"
                )


def _list_leaves(kind: DataType, path: Path | None) -> Iterator[Path]:
    """Yield the paths of the fields below a struct; none for other types and a struct that is not chosen (None)."""
    for field in getattr(kind, "fields", ()) if path else ():
        assert path is not None
        inner = (*path, field.name)
        below = list(_list_leaves(field.dataType, inner))
        yield from below or [inner]
