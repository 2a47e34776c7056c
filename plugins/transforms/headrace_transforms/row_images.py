"""Columns of rows that transforms add, compute and remove, in each row image and in the key."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from functools import reduce
from types import MappingProxyType
from typing import TYPE_CHECKING

from headrace.sdk import Changes, ConfigError, DataError, changes as C
from headrace.sdk.columns import any_of, fold_name, name_fold, quote_name
from headrace.sdk.conditions import has_columns
from headrace.sdk.rows import KEYS, list_fields, list_images, reject_rows, row_scope, unavailable_flags
from headrace.sdk.sql import evaluate, read_columns
from headrace_transforms.column_sources import find_sources

if TYPE_CHECKING:
    from pyspark.sql import Column

    #: Makes the columns of a row image from its name (None: a flat row) and its columns.
    ImageMap = Callable[[str | None, dict[str, Column]], Mapping[str, Column]]

_VALUE = C.PREFIX + "value_"


def list_copies(changes: Changes) -> list[str]:
    """Return the columns that are row images, which ``add.fields`` took from the event."""
    return [name for name, path in changes.origins.items() if len(path) == 1 and path[0] in C.IMAGES]


def map_images(changes: Changes, make: ImageMap) -> Changes:
    """Return the changes with new columns in each row image, in the key and in UNAVAILABLE, a struct of flags."""
    from pyspark.sql import functions as F

    structs = {*KEYS, C.UNAVAILABLE, *list_copies(changes), *(C.IMAGES if changes.envelope else ())}
    columns: dict[str, Column] = {}
    for name in changes.frame.columns:
        column, fields = F.col(quote_name(name)), list_fields(changes, name) if name in structs else []
        if fields:
            made = make(name, {field: column.getField(field) for field in fields})
            cells = [cell.alias(field) for field, cell in made.items()]
            if not cells and name == C.UNAVAILABLE:
                continue
            column = F.when(column.isNotNull(), F.struct(*cells))
        columns[name] = column
    if not changes.envelope:
        row = make(None, {name: columns.pop(name) for name in changes.event_columns})
        columns = {**row, **columns}
    frame = changes.frame.select(*[column.alias(name) for name, column in columns.items()])
    origins = {name: path for name, path in changes.origins.items() if name in columns}
    return replace(changes, frame=frame, origins=origins)


def keep_columns(changes: Changes, is_kept: Callable[[str], bool]) -> Changes:
    """Return the changes with those columns of the row only. DataError if none is left."""

    def choose(image: str | None, row: dict[str, Column]) -> Mapping[str, Column]:
        return row if image in KEYS else {name: column for name, column in row.items() if is_kept(name)}

    if not any(map(is_kept, changes.row_columns)):
        raise DataError("no column of the row is left", fix="keep a column, or limit the transform with `tables`")
    result = map_images(changes, choose)
    return replace(result, derived={name: reads for name, reads in changes.derived.items() if is_kept(name)})


def add_columns(changes: Changes, columns: Mapping[str, Column]) -> Changes:
    """Return the changes with more columns in the row. DataError for the name of an existing column."""
    taken = {fold_name(name) for name in changes.row_columns}
    if found := next((name for name in columns if fold_name(name) in taken), None):
        raise DataError(
            f"the row already has a column {found!r}", fix="choose another name, or rename the column before"
        )

    images = list_images(changes)

    def add(image: str | None, row: dict[str, Column]) -> Mapping[str, Column]:
        return {**row, **columns} if image in images else row

    return map_images(changes, add)


def fill_unavailable(changes: Changes, values: Mapping[str, Column]) -> Changes:
    """Return the changes with values in place of unavailable ones. ``values``: column → value."""
    from pyspark.sql import functions as F

    flags = {name: flag for name in values for flag in unavailable_flags(changes, [name])}
    if not flags:
        return changes

    def fill(image: str | None, row: dict[str, Column]) -> Mapping[str, Column]:
        if image == C.UNAVAILABLE:
            return {name: flag for name, flag in row.items() if name not in flags}
        if image not in (None, "after"):
            return row
        filled = {name: F.when(flags[name], values[name]).otherwise(row[name]) for name in flags if name in row}
        return {**row, **filled}

    return map_images(changes, fill)


def compute_columns(
    changes: Changes, texts: Mapping[str, str], rejects: Mapping[str, str] = MappingProxyType({})
) -> Changes:
    """Set columns of the row to SQL expressions over the row as it was; existing ones keep their place.

    ``rejects``: description → condition for which a change becomes a dead letter. A key column is computed from key columns alone.
    A value that is computed from unavailable values is unavailable.
    """
    from pyspark.sql import functions as F

    fold = name_fold(changes.frame.sparkSession)
    spellings = {fold(name): name for name in changes.row_columns}
    keys = {fold(name): name for name in changes.key_columns}
    in_key = {keys[fold(name)]: text for name, text in texts.items() if fold(name) in keys}
    # The row may lack a key column, which is then computed in the key alone.
    texts = {
        spellings.get(fold(name), name): text
        for name, text in texts.items()
        if fold(name) not in keys or fold(name) in spellings
    }
    rejects = {description: text for description, text in rejects.items() if has_columns(changes, text)}
    reads = {name: frozenset(map(fold, read_columns(text))) for name, text in texts.items()}
    own_texts = [*texts.values(), *rejects.values()]
    tests: dict[str, Column] = {}
    work = changes
    images = list_images(changes)
    for image in images:
        prefix = f"{_VALUE}{image}_"
        work = replace(work, frame=evaluate(work.frame, row_scope(changes, image), own_texts, prefix))
        if image != "before":  # A row before the change is not written.
            tests = {text: F.col(f"{prefix}{n}") for n, text in enumerate(rejects, len(texts))}
    work = _compute_keys(work, in_key)
    flags = _derive_flags(changes, reads)
    tests |= {f"the column `{n}` is computed from a value that the event omits": some for n, (_, some) in flags.items()}
    work = reject_rows(work, tests)

    def compute(image: str | None, row: dict[str, Column]) -> Mapping[str, Column]:
        if image == C.UNAVAILABLE:
            return {n: c for n, c in row.items() if n not in texts} | {name: flag for name, (flag, _) in flags.items()}
        if image not in (*images, *KEYS):  # a copy of an image before the transform
            return row
        names = in_key if image in KEYS else texts
        return row | {name: F.col(f"{_VALUE}{image}_{n}") for n, name in enumerate(names)}

    work = map_images(work, compute)
    work = replace(work, frame=work.frame.drop(*[c for c in work.frame.columns if c.startswith(_VALUE)]))
    derived = {name: find_sources(changes, columns) for name, columns in reads.items()}
    return replace(work, derived={**changes.derived, **derived})


def _derive_flags(changes: Changes, reads: Mapping[str, Collection[str]]) -> dict[str, tuple[Column, Column]]:
    """Return column → whether all values from which it is computed are unavailable, and whether some, but not all, are."""
    from pyspark.sql import functions as F

    found = {}
    for name, columns in reads.items():
        if flags := unavailable_flags(changes, columns):
            every = reduce(lambda a, b: a & b, flags) if len(flags) == len(columns) else F.lit(False)
            found[name] = every, any_of(flags) & ~every
    return found


def _compute_keys(changes: Changes, texts: Mapping[str, str]) -> Changes:
    for image in (name for name in KEYS if texts and name in changes.own_columns):
        try:
            frame = evaluate(changes.frame, row_scope(changes, image, ()), [*texts.values()], f"{_VALUE}{image}_")
        except ConfigError as error:
            error.what = f"{', '.join(texts)}: a key column is computed from key columns alone. {error.what}"
            raise
        changes = replace(changes, frame=frame)
    return changes
