"""Tagged columns of changes, until a transform hides them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from headrace.engine.plan.column_tags import ColumnTags
from headrace.errors import DataError
from headrace.schema.field_paths import find_opaque_type, list_field_paths, list_row_texts
from headrace.sdk.changes import IMAGES, Changes
from headrace.sdk.rows import row_types
from headrace.sdk.transform import Transform
from headrace.spark.columns import fold_name

if TYPE_CHECKING:
    from pyspark.sql.types import DataType


def list_names(changes: Changes) -> list[str]:
    """Return the columns of the row and the key, and the paths of the fields in them."""
    return [path for name, kind in row_types(changes).items() for path in list_field_paths(name, kind)]


def tag_columns(tags: ColumnTags, changes: Changes) -> Changes:
    """Return the changes with the tags of their columns and fields."""
    names = [*list_names(changes), *(path[-1] for path in changes.origins.values())]
    found, inside = tags.find(changes.table, dict.fromkeys(names)), _find_inside(tags, changes)
    found = {tag: columns | inside[tag] for tag, columns in found.items()}
    return replace(changes, tags={tag: columns | find_copies(changes, columns) for tag, columns in found.items()})


def update_tags(tags: ColumnTags, before: Changes, after: Changes, transform: Transform) -> Changes:
    """Return the changes after a transform without the tags of columns that it hid, and with the tags of its new columns.

    A column that is computed from a tagged column, or from one with a tagged field, has its tag. So has a column with its values in
    some rows.
    """
    is_applied = transform.hides_values and transform.applies_to(before.table)
    hidden = set(map(fold_name, transform.hides(before))) if is_applied else set()
    computed = {column: reads for column, reads in after.derived.items() if before.derived.get(column) != reads}
    old, new = set(map(fold_name, list_names(before))), _list_new_names(before, after, computed)
    added = replace(after, origins={name: path for name, path in after.origins.items() if name not in before.origins})
    found, inside, was_inside = {}, _find_inside(tags, after), _find_inside(tags, before)
    for tag, named in tags.find(after.table, new).items():
        named |= {name for name in inside[tag] - was_inside[tag] if hidden.isdisjoint(list_prefixes(name))}
        columns = {name for name in after.tags.get(tag, ()) if hidden.isdisjoint(list_prefixes(name))}
        tagged, folded = set(map(fold_name, columns)), set().union(*map(list_prefixes, columns))
        columns |= {column for column, reads in computed.items() if _has_tagged(reads, tagged, folded)}
        found[tag] = add_places(after, columns | named) | find_copies(added, columns)
        found[tag] |= find_copies(after, [name for name in named if fold_name(name) not in old])
    return replace(after, tags=found)


def _list_new_names(before: Changes, after: Changes, computed: Mapping[str, Collection[str]]) -> list[str]:
    """Return the columns and fields of new values: those with a new name, and those in the place of another value."""
    was_tagged, is_tagged = (set(map(fold_name, set().union(*each.tags.values()))) for each in (before, after))
    replaced = {fold_name(name) for name, reads in computed.items() if reads and not _reads_itself(name, reads)}
    known = set(map(fold_name, list_names(before))) - (was_tagged - is_tagged) - replaced  # A rename moves a tag.
    return [name for name in list_names(after) if fold_name(name) not in known | is_tagged]


def _find_inside(tags: ColumnTags, changes: Changes) -> dict[str, frozenset[str]]:
    """Return every tag → the paths of fields that may be in a text or map. Its type does not show them."""
    types = row_types(changes)
    return {
        tag: frozenset(path for path in paths if _is_opaque(types, path))
        for tag, paths in tags.find_inside(changes.table, types).items()
    }


def _is_opaque(types: Mapping[str, DataType], path: str) -> bool:
    """Return whether the field of a path may be in a text or map."""
    columns = (name for name in types if fold_name(path).startswith(f"{fold_name(name)}."))
    return any(find_opaque_type(types[name], path[len(name) + 1 :].split("."), fold_name) for name in columns)


def _reads_itself(column: str, reads: Iterable[str]) -> bool:
    return any(fold_name(column) in list_prefixes(read) for read in reads)


def _has_tagged(reads: Iterable[str], tagged: set[str], folded: set[str]) -> bool:
    """Return whether a column or field is tagged, has a tagged field, or is in a tagged one. ``folded``: with the outer names."""
    return any(fold_name(read) in folded or not tagged.isdisjoint(list_prefixes(read)) for read in reads)


def add_places(changes: Changes, columns: set[str]) -> frozenset[str]:
    """Return the columns and fields, and those that have their values in some rows, because of a ``when``."""
    found, waiting = set(columns), list(columns)
    while waiting:
        added = changes.list_places(fold_name(waiting.pop())) - found
        found |= added
        waiting += added
    return frozenset(found)


def find_copies(changes: Changes, columns: Iterable[str]) -> set[str]:
    """Return the columns, and fields in them, that ``add.fields`` took from columns and fields of a row image.

    A text of a whole row has the values of all columns.
    """
    columns = list(columns)
    found = set(list_row_texts(changes.origins, changes.frame.schema) if columns else ())
    for copy, (image, *fields) in changes.origins.items():
        source = fold_name(".".join(fields))
        for name in map(fold_name, columns) if fields and image in IMAGES else ():
            if f"{source}.".startswith(f"{name}."):
                found.add(copy)
            elif name.startswith(f"{source}."):
                found.add(copy + name.removeprefix(source))
    return found


def reject_unmasked(changes: Changes, table: str | None) -> None:
    """Raise DataError if a tagged column of a table is still visible. Records of no table (None) become dead letters."""
    if table is None:
        return
    for tag, columns in changes.tags.items():
        visible, types = set(map(fold_name, list_names(changes))) if columns else set(), row_types(changes)
        if found := sorted(name for name in columns if fold_name(name) in visible or _is_opaque(types, name)):
            what = f"the column {found[0]!r} of the table {table} has the tag {tag!r}, and no transform masks it"
            raise DataError(
                what, fix=_advise_mask(tag, is_key=fold_name(found[0]) in map(fold_name, changes.key_columns))
            )


def _advise_mask(tag: str, *, is_key: bool) -> str:
    """Return the fix for a column without a mask. A key has to stay distinct; `explode` makes no rows of an array that is null."""
    rule = '{hmac_sha256: {key: "${env:MASK_KEY}"}}' if is_key else "{nullify: true}"
    mask = f"mask it by its tag with `mask: {{tags: {{{tag}: {rule}}}}}` after the other transforms"
    return f"{mask}, or remove it from `tags:`" if is_key else f"{mask}, `drop` it, or remove it from `tags:`"


def list_prefixes(name: str) -> set[str]:
    """Return the folded path of a field, and those of the columns and fields that contain it."""
    names = fold_name(name).split(".")
    return {".".join(names[:length]) for length in range(1, len(names) + 1)}
