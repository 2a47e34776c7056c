"""Tagged columns of changes, until a transform hides them."""

from __future__ import annotations

from dataclasses import replace

from headrace.engine.plan.column_tags import ColumnTags
from headrace.errors import DataError
from headrace.sdk.changes import Changes
from headrace.sdk.transform import Transform
from headrace.spark.columns import fold_name


def tag_columns(tags: ColumnTags, changes: Changes) -> Changes:
    """Return the changes with the tags of their columns."""
    columns = [*changes.row_columns, *changes.key_columns, *(path[-1] for path in changes.origins.values())]
    return replace(changes, tags=tags.find(changes.table, dict.fromkeys(columns)))


def update_tags(tags: ColumnTags, before: Changes, after: Changes, transform: Transform) -> Changes:
    """Return the changes after a transform without the tags of columns that it hid, and with the tags of its new columns.

    A column that is computed from a tagged column has its tag.
    """
    is_applied = transform.hides_values and transform.applies_to(before.table)
    hidden = set(map(fold_name, transform.hides(before))) if is_applied else set()
    known = set(map(fold_name, (*before.row_columns, *before.key_columns)))
    renamed = {fold_name(column) for columns in after.tags.values() for column in columns}
    new = [column for column in after.row_columns if fold_name(column) not in known | renamed]
    computed = {column: reads for column, reads in after.derived.items() if before.derived.get(column) != reads}
    found = {}
    for tag, named in tags.find(after.table, new).items():
        columns = {column for column in after.tags.get(tag, ()) if fold_name(column) not in hidden}
        folded = set(map(fold_name, columns))
        columns |= {column for column, reads in computed.items() if not folded.isdisjoint(map(fold_name, reads))}
        found[tag] = frozenset(columns | named)
    return replace(after, tags=found)


def reject_unmasked(changes: Changes) -> None:
    """Raise DataError if a tagged column is still visible. Records of unknown tables become dead letters, and are not checked."""
    if changes.table is None:
        return
    for tag, columns in changes.tags.items():
        spellings = {fold_name(column): column for column in sorted(columns)}
        if found := sorted(changes.find_columns(spellings.values())):
            raise DataError(
                f"the column {found[0]!r} of the table {changes.table} has the tag {tag!r}, and no transform masks it",
                fix=f"mask it by its tag with `mask: {{tags: {{{tag}: {{nullify: true}}}}}}`, `drop` it, or remove it from `tags:`",
            )
