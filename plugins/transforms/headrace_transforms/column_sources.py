"""Columns from which a column of the row was made: by an expression, from a struct, or from a row image."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

from headrace.sdk import Changes
from headrace.sdk.changes import IMAGES
from headrace.sdk.columns import fold_name
from headrace.sdk.rows import list_fields


def find_sources(changes: Changes, columns: Iterable[str]) -> frozenset[str]:
    """Return the folded names of columns, and of all columns from which they were made, also by earlier transforms.

    A value that was taken from a row image counts as made from the row's column, and a copy of a whole image as made from all of its
    columns: a mask of one of these columns must not leave it visible. A column counts as made from the columns into which a ``when``
    moved its value.
    """
    derived = {fold_name(name): sources for name, sources in changes.derived.items()}
    origins = {fold_name(name): _list_image_columns(changes, name) for name in changes.origins}
    moved = {fold_name(place): names for place, names in changes.moved.items()}
    found: set[str] = set()
    waiting = [fold_name(name) for name in columns]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            others = [n for place, names in moved.items() if f"{place}.".startswith(f"{name}.") for n in names]
            waiting += map(fold_name, (*derived.get(name, ()), *origins.get(name, ()), *others))
    return frozenset(found)


def add_moved(changes: Changes, pairs: Iterable[tuple[str, str]]) -> Changes:
    """Return the changes with places of one value: some rows have it in the first of a pair, the others in the second."""
    moved = {place: set(names) for place, names in changes.moved.items()}
    for first, second in pairs:
        moved.setdefault(first, set()).add(second)
        moved.setdefault(second, set()).add(first)
    return replace(changes, moved={place: frozenset(names) for place, names in moved.items()})


def _list_image_columns(changes: Changes, name: str) -> Collection[str]:
    """Return the row's columns of which a column has values, because it was taken from a row image."""
    image, *field = changes.origins[name]
    if image not in IMAGES:
        return ()
    return field[:1] or list_fields(changes, name)
