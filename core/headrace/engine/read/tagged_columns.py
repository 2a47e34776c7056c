"""Tagged columns of changes, until a transform hides them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from headrace.engine.plan.column_tags import ColumnTags
from headrace.errors import DataError
from headrace.schema.field_paths import list_field_paths
from headrace.sdk.changes import Changes
from headrace.sdk.rows import row_types
from headrace.sdk.transform import Transform
from headrace.spark.columns import fold_name


def list_names(changes: Changes) -> list[str]:
    """Return the columns of the row and the key, and the paths of the fields in them."""
    return [path for name, kind in row_types(changes).items() for path in list_field_paths(name, kind)]


def tag_columns(tags: ColumnTags, changes: Changes) -> Changes:
    """Return the changes with the tags of their columns and fields."""
    names = [*list_names(changes), *(path[-1] for path in changes.origins.values())]
    return replace(changes, tags=tags.find(changes.table, dict.fromkeys(names)))


def update_tags(tags: ColumnTags, before: Changes, after: Changes, transform: Transform) -> Changes:
    """Return the changes after a transform without the tags of columns that it hid, and with the tags of its new columns.

    A column that is computed from a tagged column, or from one with a tagged field, has its tag. So has a column with its values in
    some rows.
    """
    is_applied = transform.hides_values and transform.applies_to(before.table)
    hidden = set(map(fold_name, transform.hides(before))) if is_applied else set()
    known = set(map(fold_name, list_names(before)))
    renamed = {fold_name(column) for columns in after.tags.values() for column in columns}
    new = [name for name in list_names(after) if fold_name(name) not in known | renamed]
    computed = {column: reads for column, reads in after.derived.items() if before.derived.get(column) != reads}
    found = {}
    for tag, named in tags.find(after.table, new).items():
        columns = {name for name in after.tags.get(tag, ()) if hidden.isdisjoint(_list_prefixes(name))}
        tagged, folded = set(map(fold_name, columns)), set().union(*map(_list_prefixes, columns))
        columns |= {column for column, reads in computed.items() if _has_tagged(reads, tagged, folded)}
        found[tag] = _add_places(after, columns | named)
    return replace(after, tags=found)


def _has_tagged(reads: Iterable[str], tagged: set[str], folded: set[str]) -> bool:
    """Return whether a column or field is tagged, has a tagged field, or is in a tagged one. ``folded``: with the outer names."""
    return any(fold_name(read) in folded or not tagged.isdisjoint(_list_prefixes(read)) for read in reads)


def _add_places(changes: Changes, columns: set[str]) -> frozenset[str]:
    """Return the columns and fields, and those that have their values in some rows, because of a ``when``."""
    found, waiting = set(columns), list(columns)
    while waiting:
        added = changes.list_places(fold_name(waiting.pop())) - found
        found |= added
        waiting += added
    return frozenset(found)


def reject_unmasked(changes: Changes) -> None:
    """Raise DataError if a tagged column is still visible. Records of unknown tables become dead letters, and are not checked."""
    if changes.table is None:
        return
    for tag, columns in changes.tags.items():
        visible = set(map(fold_name, list_names(changes))) if columns else set()
        if found := sorted(column for column in columns if fold_name(column) in visible):
            raise DataError(
                f"the column {found[0]!r} of the table {changes.table} has the tag {tag!r}, and no transform masks it",
                fix=f"mask it by its tag with `mask: {{tags: {{{tag}: {{nullify: true}}}}}}`, `drop` it, or remove it from `tags:`",
            )


def _list_prefixes(name: str) -> set[str]:
    """Return the folded path of a field, and those of the columns and fields that contain it."""
    names = fold_name(name).split(".")
    return {".".join(names[:length]) for length in range(1, len(names) + 1)}
