"""Columns from which a column of the row was made: by an expression, from a struct, or from a row image."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from headrace.sdk import Changes
from headrace.sdk.changes import IMAGES
from headrace.sdk.columns import fold_name
from headrace.sdk.rows import list_fields


def find_sources(changes: Changes, columns: Iterable[str]) -> frozenset[str]:
    """Return the folded names of columns, and of all columns from which they were made, also by earlier transforms.

    A value that was taken from a row image counts as made from the row's column, and a copy of a whole image as made from all of its
    columns: a mask of one of these columns must not leave it visible.
    """
    derived = {fold_name(name): sources for name, sources in changes.derived.items()}
    origins = {fold_name(name): _list_image_columns(changes, name) for name in changes.origins}
    found: set[str] = set()
    waiting = [fold_name(name) for name in columns]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += [fold_name(source) for source in (*derived.get(name, ()), *origins.get(name, ()))]
    return frozenset(found)


def _list_image_columns(changes: Changes, name: str) -> Collection[str]:
    """Return the row's columns of which a column has values, because it was taken from a row image."""
    image, *field = changes.origins[name]
    if image not in IMAGES:
        return ()
    return field[:1] or list_fields(changes, name)
