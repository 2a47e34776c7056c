"""Positions from columns of flat rows: the option ``order.by`` of a rule."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING

from headrace.engine.plan.pipeline_plan import Plan
from headrace.errors import DataError
from headrace.sdk import events as E
from headrace.sdk.changes import ERROR, KEY_CHANGE_POSITION, POSITION, Changes
from headrace.sdk.events import Events
from headrace.sdk.positions import OFFSET_ORDER, SORTABLE, is_tombstone, sortable_signed
from headrace.sdk.reject_reason import RejectReason
from headrace.sdk.transform import Transform
from headrace.spark.columns import any_of, fold_name, match_names, quote_name
from headrace.suggestions import did_you_mean

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import DataType, StructField

#: Type of a column → the kind of its values. Values of one kind are encoded alike.
_KINDS = {
    **dict.fromkeys(("byte", "short", "integer", "long", "decimal"), "number"),
    **dict.fromkeys(("date", "timestamp", "timestamp_ntz"), "time"),
    "string": "text",
}
#: Regular expression of a column's part of a position, by kind. Part of the regular expression of a position: without groups.
_PATTERNS = {"number": rf"{SORTABLE}[0-9]*\.", "time": SORTABLE, "text": r"(?:0|1[0-9A-F]*\.)"}
_DAY_MICROS = 24 * 60 * 60 * 1_000_000
_LOWEST, _HIGHEST = Decimal(-(1 << 63)), Decimal((1 << 63) - 1)
#: Most decimal places with which Spark calculates exactly: a decimal has 38 digits, and two are needed before the point.
_MAX_SCALE = 36


def describe_order(plan: Plan, session: SparkSession, events: Events, order_by: Sequence[str]) -> str:
    """Return a description of the order of a topic, which changes if positions of before and after cannot be compared."""
    fields = find_order_fields(plan, session, events, order_by)
    # Files may spell the name of a column in upper or lower case.
    return (
        f"the columns {', '.join(f'{fold_name(field.name)} ({_KINDS[field.dataType.typeName()]})' for field in fields)}"
    )


def find_order_fields(plan: Plan, session: SparkSession, events: Events, order_by: Sequence[str]) -> list[StructField]:
    """Return the columns of ``order.by``.

    DataError for events that are not flat rows or have positions, for a missing column, and for one whose values have no exact order.
    """
    _refuse_positions(plan, events)
    where, names = f"topic {events.topic}, `order.by`", events.schema.names
    spellings = {wanted: name for name, wanted in match_names(session, order_by, names).items()}
    fields = []
    for wanted in order_by:
        if wanted not in spellings:
            raise DataError(f"no such column: {wanted!r}", where=where, fix=did_you_mean(wanted, names))
        field = events.schema[spellings[wanted]]
        if field.dataType.typeName() not in _KINDS or getattr(field.dataType, "scale", 0) > _MAX_SCALE:
            raise DataError(
                f"the column {field.name!r} has the type {field.dataType.simpleString()}, which cannot order changes",
                where=where,
                fix="name columns of integers, decimals, dates, timestamps or strings",
            )
        fields.append(field)
    return fields


def _refuse_positions(plan: Plan, events: Events) -> None:
    """Raise DataError for events with a position of their own, and for events that are not rows."""
    where, order = f"topic {events.topic}", plan.dialect_of(events).order(events)
    if fields := plan.row_fields(events.schema):
        raise DataError(
            f"`order.by` orders flat rows, and the rows of its events are in {' and '.join(map(repr, fields))}",
            where=where,
            fix="remove `order.by`: such events have an order of their own",
        )
    if order != OFFSET_ORDER:
        raise DataError(
            f"`order.by` orders rows without a position, and its events have one{f': {order}' if order else ''}",
            where=where,
            fix="remove `order.by`, or remove the fields with the position from the events",
        )


def reject_tombstones(frame: DataFrame) -> DataFrame:
    """Reject the tombstones of an events frame, which have no columns to order them by."""
    from pyspark.sql import functions as F

    if E.KEY not in frame.columns:
        return frame
    is_bare = F.col(E.VALUE).isNull() & F.col(E.ERROR).isNull() & F.col(E.KEY).isNotNull()
    error = F.when(is_bare, F.lit(RejectReason.AFTER_MISSING)).otherwise(F.col(E.ERROR))
    return frame.withColumn(E.ERROR, error)


def order_changes(changes: Changes, fields: Sequence[StructField]) -> Changes:
    """Return flat changes whose positions begin with the values of columns; equal values are ordered as before.

    A number of 64 bits or more before the point makes its record a dead letter.
    """
    from pyspark.sql import functions as F

    parts = [_encode(F.col(quote_name(field.name)), field.dataType) for field in fields]

    def insert_parts(position: Column) -> Column:
        # The first character is the epoch, 0.
        made = F.concat(position.substr(1, 1), *parts, position.substr(2, 2**31 - 1))
        return F.when(is_tombstone(position), position).otherwise(made)

    names = [name for name in (POSITION, KEY_CHANGE_POSITION) if name in changes.own_columns]
    frame = changes.frame.withColumns({name: insert_parts(F.col(name)) for name in names})
    if decimals := [field for field in fields if _may_exceed(field.dataType)]:
        is_large = any_of(~_fits(F.col(quote_name(field.name))) for field in decimals)
        error = F.coalesce(F.col(ERROR), F.when(is_large, F.lit(RejectReason.UNSUPPORTED_VALUE)))
        frame = frame.withColumn(ERROR, error)
    pattern = changes.position_parts
    if pattern is not None:
        pattern = "".join(_PATTERNS[_KINDS[field.dataType.typeName()]] for field in fields) + pattern
    ordered = frozenset(field.name for field in fields)
    return replace(changes, frame=frame, ordered=ordered, position_parts=pattern)


def refuse_hidden(changes: Changes, transform: Transform) -> None:
    """Raise DataError if a transform hides a column whose values are in the positions, which tables store."""
    if not changes.ordered or not transform.hides_values or not transform.applies_to(changes.table):
        return
    hidden = set(map(fold_name, transform.hides(changes)))
    _refuse(changes, (name for name in changes.ordered if fold_name(name) in hidden), "is hidden")


def refuse_tagged(changes: Changes) -> None:
    """Raise DataError if a tagged column is in the positions."""
    for tag, columns in changes.tags.items():
        _refuse(changes, columns & changes.ordered, f"has the tag {tag!r}")


def _refuse(changes: Changes, names: Iterable[str], why: str) -> None:
    if name := min(names, default=None):
        raise DataError(
            f"the column {name!r} {why}, and `order.by` stores its values in the positions of the rows",
            where=f"table {changes.table}",
            fix="name other columns in `order.by`",
        )


def _encode(column: Column, kind: DataType) -> Column:
    """Return a value as a string that sorts like the value, null first. No string is a prefix of another of the same kind."""
    from pyspark.sql import functions as F, types as T

    if isinstance(kind, T.StringType):
        return F.coalesce(F.concat(F.lit("1"), F.hex(column), F.lit(".")), F.lit("0"))
    if isinstance(kind, T.DateType):
        return sortable_signed(F.unix_date(column).cast("bigint") * F.lit(_DAY_MICROS))
    if isinstance(kind, T.TimestampNTZType):
        # A cast would use the time zone of the session.
        return sortable_signed(F.unix_micros(F.concat(column.cast("string"), F.lit("Z")).cast("timestamp")))
    if isinstance(kind, T.TimestampType):
        return sortable_signed(F.unix_micros(column))
    if not isinstance(kind, T.DecimalType):
        return F.concat(sortable_signed(column.cast("bigint")), F.lit("."))
    whole = F.when(_fits(column), F.floor(column)) if _may_exceed(kind) else F.floor(column)
    digits = F.lit("")
    if kind.scale:
        # The sum has one digit before the point. Without it, Spark writes small numbers with an exponent.
        fraction = (F.pmod(column, F.lit(1)) + F.lit(1)).cast("string").substr(3, _MAX_SCALE)
        digits = F.coalesce(F.regexp_replace(fraction, "0+$", ""), F.lit(""))
    return F.concat(sortable_signed(whole.cast("bigint")), digits, F.lit("."))


def _may_exceed(kind: DataType) -> bool:
    """Return whether a number may have 64 bits or more before the point."""
    from pyspark.sql import types as T

    return isinstance(kind, T.DecimalType) and kind.precision - kind.scale > 18


def _fits(number: Column) -> Column:
    """Return whether a number is null or has less than 64 bits before the point."""
    from pyspark.sql import functions as F

    return F.coalesce(number.between(F.lit(_LOWEST), F.lit(_HIGHEST)), F.lit(True))
