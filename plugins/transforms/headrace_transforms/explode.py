"""One row per element of an array, with the element's place in its key."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING

from pydantic import field_validator, model_validator

from headrace.sdk import Changes, DataError, Transform, TransformConfig, changes as C
from headrace.sdk.columns import any_of, fold_name
from headrace.sdk.positions import is_tombstone, sortable, tombstone_position
from headrace.sdk.reject_reason import RejectReason
from headrace.sdk.rows import list_fields, reject_rows, row_types, unavailable_flags
from headrace.sdk.transform import ColumnName
from headrace_transforms.column_sources import find_sources
from headrace_transforms.expand import UNREADABLE_BEFORE
from headrace_transforms.row_images import map_images

if TYPE_CHECKING:
    from pyspark.sql import Column

_PLACE, _NEW_SIZE, _OLD_SIZE = f"{C.PREFIX}element", f"{C.PREFIX}new_size", f"{C.PREFIX}old_size"
#: headrace's columns about values of the row that the event omits: such changes are dead letters.
_OF_OMITTED = (C.NEW_KEY, C.KEY_CHANGE_POSITION, C.UNAVAILABLE)
_MISSING = (
    "`explode` needs the array before the change, to delete the rows of its elements: set REPLICA IDENTITY FULL "
    "(PostgreSQL) or binlog_row_image=FULL (MySQL), take a snapshot of the whole table, and run `headrace resync`"
)
_OMITTED = (
    "`explode` repeats the row for each element, and the event omits one of its values: leave out the column with `drop`, or set "
    "REPLICA IDENTITY FULL"
)


class ExplodeConfig(TransformConfig):
    """Array to explode. ``tables`` is required, because the table gets another key."""

    column: ColumnName
    """Column with the array. Each row has one element in its place."""

    position: ColumnName = "pos"
    """Name of the column with the position of the element, from 0. It is added to the row and to the key."""

    @field_validator("position")
    @classmethod
    def _valid_name(cls, value: str) -> str:
        if value.lower().startswith(C.PREFIX):
            raise ValueError(f"{value!r} is not a valid column name")
        return value

    @field_validator("when")
    @classmethod
    def _no_condition(cls, value: str | None) -> str | None:
        if value is not None:
            raise ValueError("all rows of a table have the same key columns: put `filter` before it")
        return value

    @model_validator(mode="after")
    def _has_tables(self) -> ExplodeConfig:
        if not self.only_tables:
            raise ValueError("requires `tables`: the position of the element becomes part of their key")
        return self


class Explode(Transform):
    """``explode: {column: items, tables: shop.orders}``: elements that a change removes from the array are deleted."""

    name = "explode"
    api_version = 1
    multiplies = True
    reads_before = True
    Config = ExplodeConfig
    config: ExplodeConfig

    def reads(self) -> Collection[str]:
        return [self.config.column]

    def apply(self, changes: Changes) -> Changes:
        from pyspark.sql import functions as F

        column, place = self._find_column(changes), F.col(_PLACE)
        changes = _reject_unknown(replace(changes, position_parts=None), column)
        sizes = {_OLD_SIZE: _count(changes, "before", column), _NEW_SIZE: _count(changes, "after", column)}
        frame = changes.frame.withColumns(sizes)
        frame = frame.select("*", F.explode(_list_places(changes)).alias(_PLACE)).drop(*_OF_OMITTED)

        def take_element(image: str | None, row: dict[str, Column]) -> Mapping[str, Column]:
            if image in C.IMAGES:
                row = {name: F.get(cell, place) if name == column else cell for name, cell in row.items()}
            return {**row, self.config.position: place}

        result = map_images(replace(changes, frame=frame), take_element)
        marked = result.frame.withColumns(_mark_children(result))
        derived = dict(result.derived)
        if column:  # A tag of the elements is one of the column that has them.
            derived[column] = derived.get(column, frozenset()) | {f"{fold_name(column)}.element"}
        return replace(result, frame=marked.drop(_PLACE, _OLD_SIZE, _NEW_SIZE), derived=derived)

    def _find_column(self, changes: Changes) -> str | None:
        """Return the column with the array, as the row spells it; None if no row has had a value in it."""
        name, own = self.config.column, changes.own_columns
        if not changes.envelope:
            raise DataError(
                "the changes are rows, which do not have the array before the change",
                fix="put `explode` before `unwrap`, and read complete envelopes",
            )
        if own and C.KEY not in own:
            raise DataError("the changes have no key", fix="name the key columns in the rule: `key: [id]`")
        taken = {fold_name(column) for column in (*changes.row_columns, *changes.key_columns)}
        if fold_name(self.config.position) in taken:
            raise DataError(
                f"the row already has a column {self.config.position!r}", fix="choose another name in `position`"
            )
        column = next(iter(changes.find_columns([name])), None)
        kind = row_types(changes)[column].typeName() if column else "void"
        if column in changes.key_columns or kind not in ("array", "void"):
            what = (
                "part of the key" if column in changes.key_columns else row_types(changes)[str(column)].simpleString()
            )
            fix = (
                "put `expand` before it. If it is there, the first values were no arrays: name the type in it, "
                f"`expand: {{columns: {{{name}: ARRAY<…>}}}}`"
            )
            raise DataError(f"the column {name!r} is {what}, and `explode` reads arrays", fix=fix)
        return column if kind == "array" else None


def _is_deleted(changes: Changes) -> Column:
    from pyspark.sql import functions as F

    return F.col(C.DELETED) if C.DELETED in changes.own_columns else F.coalesce(F.col("op") == "d", F.lit(False))


def _is_update(changes: Changes) -> Column:
    from pyspark.sql import functions as F

    return ~_is_deleted(changes) & F.coalesce(F.col(C.OP if C.OP in changes.own_columns else "op") == "u", F.lit(False))


def _is_tombstone(changes: Changes) -> Column:
    from pyspark.sql import functions as F

    return is_tombstone(F.col(C.POSITION)) if C.POSITION in changes.own_columns else F.lit(False)


def _reject_unknown(changes: Changes, column: str | None) -> Changes:
    """Turn changes into dead letters, deletes too, if elements that they removed or values of the row are unknown.

    ``column``: the one with the array.
    """
    from pyspark.sql import functions as F

    fields = list_fields(changes, "before")
    before = F.col("before") if fields else F.lit(None)
    lacks_row = before.isNull()
    if UNREADABLE_BEFORE in changes.own_columns:
        others = F.array(*map(F.lit, _list_unrelated(changes, column))).cast("array<string>")
        lacks_row |= F.size(F.array_except(UNREADABLE_BEFORE, others)) > 0
    # Without a complete row before the change, it has values in its key columns only: in MySQL with binlog_row_image=MINIMAL, and in
    # PostgreSQL in deletes, and in updates with REPLICA IDENTITY USING INDEX.
    nulls = [before.getField(name).isNull() for name in fields if name not in changes.key_columns]
    has_key_only = reduce(lambda a, b: a & b, nulls, F.lit(bool(changes.key_columns)))
    deleted = _is_deleted(changes) & ~_is_tombstone(changes)
    tests = {_MISSING: (deleted | _is_update(changes)) & (lacks_row | has_key_only)}
    if flags := unavailable_flags(changes, changes.row_columns):
        tests[_OMITTED] = ~deleted & any_of(flags)
    if C.ERROR not in changes.own_columns:  # a DataFrame outside of a pipeline
        return reject_rows(changes, tests)
    # `reject_rows` keeps deletes: elsewhere, a delete needs no other column than its key.
    found = F.coalesce(*[F.when(test, F.lit(text)) for text, test in tests.items()])
    is_first = F.col(C.ERROR).isNull() & found.isNotNull()
    columns = {C.ERROR: F.when(is_first, F.lit(RejectReason.UNTRANSFORMABLE)).otherwise(F.col(C.ERROR))}
    if C.DETAIL in changes.own_columns:
        columns[C.DETAIL] = F.when(is_first, found).otherwise(F.col(C.DETAIL))
    return replace(changes, frame=changes.frame.withColumns(columns))


def _list_unrelated(changes: Changes, column: str | None) -> list[str]:
    """Return the columns whose value before the change has no elements of ``column``, nor of an array that may be exploded later."""
    sources = find_sources(changes, [column] if column else changes.row_columns)
    kinds = row_types(changes)
    return [
        name for name in changes.row_columns if fold_name(name) not in sources and kinds[name].typeName() != "array"
    ]


def _count(changes: Changes, image: str, column: str | None) -> Column:
    """Return the number of elements that a row image has in the table, before or after the change."""
    from pyspark.sql import functions as F

    if column is None or column not in list_fields(changes, image):
        return F.lit(0)
    is_deleted = _is_deleted(changes)
    is_in_table = is_deleted | _is_update(changes) if image == "before" else ~is_deleted
    elements = F.col(image).getField(column)
    return F.when(is_in_table & elements.isNotNull(), F.size(elements)).otherwise(0)


def _list_places(changes: Changes) -> Column:
    """Return the places of a change's elements, before and after it; null for a dead letter, which stays one change.

    The last row of a snapshot has a place without elements, too, because it reports the snapshot's end.
    """
    from pyspark.sql import functions as F

    count, nothing = F.greatest(_OLD_SIZE, _NEW_SIZE), F.array().cast("array<int>")
    is_rejected = F.col(C.ERROR).isNotNull() if C.ERROR in changes.own_columns else F.lit(False)
    return (
        F.when(is_rejected, F.array(F.lit(None).cast("int")))
        .when(~_is_tombstone(changes) & _is_mark(changes), F.array(F.lit(0)))
        .when(_is_tombstone(changes) | (count == 0), nothing)
        .otherwise(F.sequence(F.lit(0), count - 1))
    )


def _is_mark(changes: Changes) -> Column:
    """Return whether a change only reports the end of a snapshot: its last row, without elements."""
    from pyspark.sql import functions as F

    if not {C.SNAPSHOT, C.POSITION} <= set(changes.own_columns):
        return F.lit(False)
    is_last = F.coalesce(F.col(C.SNAPSHOT).getField("is_last"), F.lit(False))
    return is_last & (F.greatest(_OLD_SIZE, _NEW_SIZE) == 0)


def _mark_children(changes: Changes) -> dict[str, Column]:
    """Return the columns of changes of elements that differ from those of their row's change."""
    from pyspark.sql import functions as F

    place, frame = F.col(_PLACE), changes.frame
    is_element, is_old, is_new = place.isNotNull(), place < F.col(_OLD_SIZE), place < F.col(_NEW_SIZE)
    is_mark = is_element & _is_mark(changes)
    columns: dict[str, Column] = {}
    for image, is_there in (("before", is_old), ("after", is_new)):
        if list_fields(changes, image):
            columns[image] = F.when(~is_element | is_there, F.col(image))
    for name in {"op", C.OP} & set(frame.columns):
        op = F.col(name)
        made = (
            F.when(is_mark, F.lit(None)).when(is_element & ~is_new, "d").when(is_element & ~is_old & (op == "u"), "c")
        )
        columns[name] = made.otherwise(op)
    if C.DELETED in frame.columns:
        columns[C.DELETED] = F.when(is_element, ~is_new).otherwise(F.col(C.DELETED))
    if C.POSITION in frame.columns:  # All changes of a record have positions of their own.
        position = F.col(C.POSITION)
        own = F.concat(position, F.lit("."), sortable(place))
        # A tombstone is no change of its key: it is counted, and not written.
        columns[C.POSITION] = F.when(is_mark, tombstone_position(own)).when(is_element, own).otherwise(position)
    return columns
