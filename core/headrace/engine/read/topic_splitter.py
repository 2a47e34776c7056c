"""Splitting of topics that a rule routes by a field, into the parts of their tables."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import TYPE_CHECKING, Any

from headrace.dead_letters.rows import keep_numbers, number_in_file
from headrace.errors import DataError
from headrace.sdk import events as E
from headrace.sdk.changes import PREFIX
from headrace.sdk.events import Events, Part
from headrace.sdk.reject_reason import RejectReason
from headrace.sdk.schema_log import SchemaLog, Subject, part_subject
from headrace.suggestions import did_you_mean

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from headrace.engine.plan.pipeline_plan import Plan
    from headrace.engine.plan.routing import Route
    from headrace.sdk.transform import Transform

#: Value of ``route.by.field`` for the name of a record's schema, if records have no such field.
RECORD_NAME = "record.name"
#: Column with the name of a record's part of its topic; null in a topic that no rule splits.
PART = PREFIX + "part"


@dataclass(frozen=True)
class SplitRules:
    """Rules of one topic that is split."""

    #: Fields whose values, joined with dots, name the part of an event.
    by: Sequence[str]
    #: Fields of the events that contain rows.
    row_fields: Collection[str]
    #: Returns whether a value names a table of the topic; otherwise its events are rejected.
    accepts: Callable[[str], bool]
    #: Whether deletes are left out of some table.
    ignores_deletes: bool

    @classmethod
    def of_topic(cls, plan: Plan, events: Events, by: Sequence[str]) -> SplitRules:
        if plan.source.finds_missing_rows:
            raise DataError(
                "the source compares the keys of whole topics to find missing rows, and `route.by.field` splits the topic",
                where=f"topic {events.topic}",
                fix="remove `route.by.field`, or remove the comparison from the options of the source",
            )
        row_fields = plan.row_fields(events.schema)
        is_in_row = names_row_column(plan, events, by)

        def accepts(part: str) -> bool:
            if not plan.routes.accepts(events.topic, part):
                return False
            # A column of the row may name a table whose deletes, which lack the column, count.
            route = plan.routes.of(events.topic, part) if is_in_row else None
            return route is None or plan.ignores_deletes(route.table)

        return cls(by, row_fields, accepts, plan.ignores_deletes(None))


def list_transforms(plan: Plan, events: Events, route: Route) -> Sequence[Transform]:
    """Return the transforms of the events of a topic or part."""
    if route.by and events.part is None and names_row_column(plan, events, route.by):
        # No column assigns these events to a table. A transform that leaves out deletes rejects the others.
        return [transform for transform in plan.transforms if transform.ignores_deletes]
    return plan.transforms_of(route.table)


def names_row_column(plan: Plan, events: Events, by: Sequence[str]) -> bool:
    """Return whether one of the fields ``by`` is a column of the row."""
    row_fields = plan.row_fields(events.schema)
    return any(path.partition(".")[0] in row_fields for path in by)


def split_topic(
    session: SparkSession, schemas: SchemaLog, events: Events, rules: SplitRules, *, in_files: bool
) -> list[Events]:
    """Split the events of a topic by the values of fields; events without a value have no part.

    The split takes one pass over the batch. A part has its own column types if the source can read the part alone. Otherwise the
    schema of a part has the columns of the topic in which a record of the part had a value, in this batch or before.
    ``in_files``: records are numbered within their file.
    """
    from pyspark.sql import functions as F

    row_fields = rules.row_fields
    part = _part_column(events, rules)
    names = _name_schema(events.schema, rules.by)
    columns: list[Column] = []
    if events.narrow is None:
        values, keys = _list_columns(events.schema, E.VALUE, row_fields), _list_columns(events.key_schema, E.KEY, ())
        columns = [_names_with_values(values), _names_with_values(keys)]
    # A tombstone does not identify its table.
    frame = E.drop_tombstones(events.load(session, events.schema if columns else names))
    rows = frame.groupBy(part.alias(PART)).agg(F.count("*"), *columns).collect()
    known = [row for row in rows if row[PART] is not None and rules.accepts(row[PART])]
    parts = []
    for name, _, *found in known:
        select = partial(_select, part == name, in_files)
        if events.narrow is None:
            parts.append(_keep_own_columns(schemas, events, name, found, select, row_fields))
        else:
            keep_known_types(schemas, events, name, row_fields)
            parts.append(_narrow(events, Part(name, names, part == name, select)))
    if len(known) < len(rows):
        is_other = F.coalesce(~part.isin([name for name, *_ in known]), F.lit(True))
        load = partial(_load_others, events, part.isNotNull(), partial(_select, is_other, in_files))
        parts.append(replace(events, load=load))
    return sorted(parts, key=lambda found: found.part or "")


def _narrow(events: Events, part: Part) -> Events:
    """Return the events of a part. A part that cannot be read does not affect the others."""
    assert events.narrow is not None, "the source can read a part alone"
    try:
        found = events.narrow(part)
    except Exception as error:  # noqa: BLE001 - its table raises the error
        found = Events.of_failure(events.topic, error)
    assert found is not None, "a part has records"
    return replace(found, part=part.name, by_offset=events.by_offset)


def keep_known_types(schemas: SchemaLog, events: Events, name: str, row_fields: Collection[str]) -> None:
    """Save the types of a part that an earlier release read with the types of the whole topic."""
    for subject, schema, rows in (("value", events.schema, row_fields), ("key", events.key_schema, ())):
        columns, own = schemas.get(f"{events.topic}/{name}-{subject}"), part_subject(events.topic, name, subject)
        has_writers = bool(schemas.writers(Subject(events.topic, subject)))
        if columns is not None and schema is not None and not has_writers and schemas.get(own) is None:
            schemas.remember(own, _keep_columns(schema, columns.names, rows))


def _keep_own_columns(
    schemas: SchemaLog,
    events: Events,
    name: str,
    found: Sequence[Sequence[str]],
    select: Callable[[DataFrame], DataFrame],
    row_fields: Collection[str],
) -> Events:
    """Return the events of a part with the columns in which one of its records had a value. ``found``: the columns of values and of keys."""
    columns = _remember(schemas, f"{events.topic}/{name}-value", found[0])
    own = replace(events, part=name, schema=_keep_columns(events.schema, columns, row_fields))
    if events.key_schema is None:
        return replace(own, load=partial(_load_part, events, select))
    key = _keep_columns(events.key_schema, _remember(schemas, f"{events.topic}/{name}-key", found[1]), ())
    return replace(own, key_schema=key, load=partial(_load_part, events, select, key=key.names))


def _name_schema(schema: StructType, by: Sequence[str]) -> StructType:
    """Return the part of a schema with the fields ``by``."""
    from pyspark.sql.types import StructField, StructType

    tops: dict[str, list[str]] = {}
    for path in by:
        if path == RECORD_NAME and "record" not in schema.names:
            continue
        top, _, field = path.partition(".")
        if top in schema.names:
            tops.setdefault(top, []).extend([field] if field else [])
    fields = []
    for top, names in tops.items():
        struct: Any = schema[top].dataType
        fields.append(StructField(top, StructType([f for f in struct if f.name in names]) if names else struct))
    return StructType(fields) if fields else schema


def _no_such_field(events: Events, rules: SplitRules, path: str) -> DataError:
    """Return the error for a field that cannot name the table."""
    in_row = rules.ignores_deletes and path.partition(".")[0] in rules.row_fields
    known = {name: getattr(events.schema[name].dataType, "names", ()) for name in events.schema.names}
    places = [name for name in known if in_row or name not in rules.row_fields]
    paths = [f"{name}.{inner}" for name in places for inner in known[name]]
    return DataError(
        f"`route.by.field` names {path!r}, which its events do not have{'' if in_row else ' outside the row'}",
        where=f"topic {events.topic}",
        fix=did_you_mean(path, paths or known),
    )


def _part_column(events: Events, rules: SplitRules) -> Column:
    """Return the values of the fields, joined with dots; null if a value is missing or blank."""
    from pyspark.sql import functions as F

    columns = []
    for path in rules.by:
        if path == RECORD_NAME and events.types and "record" not in events.schema.names:
            columns.append(F.col(E.TYPE) if len(events.types) > 1 else F.lit(events.types[0]))
            continue
        top, _, field = path.partition(".")
        struct = events.schema[top].dataType if top in events.schema.names else None
        is_in_row = top in rules.row_fields
        if is_in_row and rules.ignores_deletes and not hasattr(struct, "names"):  # All events are deletes.
            columns.append(F.lit(None).cast("string"))
            continue
        is_known = struct is not None and (not field or field in getattr(struct, "names", ()))
        if not is_known or (is_in_row and not rules.ignores_deletes):
            raise _no_such_field(events, rules, path)
        column = F.col(E.VALUE).getField(top)
        columns.append((column.getField(field) if field else column).cast("string"))
    has_all = reduce(lambda a, b: a & b, [column.isNotNull() & column.rlike(r"\S") for column in columns])
    return F.when(has_all, F.concat_ws(".", *columns))


def _list_columns(schema: StructType | None, column: str, row_fields: Collection[str]) -> Mapping[str, list[Column]]:
    """Return column of a row or key → its values: from the fields that are rows, or from the struct itself if it has none."""
    from pyspark.sql import functions as F

    columns: dict[str, list[Column]] = {}
    rows = [name for name in row_fields if _names(schema, name)]
    for row in rows:
        for name in _names(schema, row):
            columns.setdefault(name, []).append(F.col(column).getField(row).getField(name))
    if not rows and schema is not None:
        columns = {name: [F.col(column).getField(name)] for name in schema.names}
    return columns


def _names_with_values(columns: Mapping[str, Sequence[Column]]) -> Column:
    """Return the names of the columns in which a record of a group has a value."""
    from pyspark.sql import functions as F

    found = [
        F.when(F.max(reduce(lambda a, b: a | b, [value.isNotNull() for value in values])), F.lit(name))
        for name, values in columns.items()
    ]
    return F.array_compact(F.array(*found)) if found else F.array().cast("array<string>")


def _remember(schemas: SchemaLog, name: str, found: Collection[str]) -> Collection[str]:
    """Return the names that were found for a part in this batch or before, and save them."""
    from pyspark.sql.types import StringType, StructField, StructType

    known = schemas.get(name)
    names = list(dict.fromkeys([*(known.names if known else ()), *found]))
    schemas.remember(name, StructType([StructField(column, StringType()) for column in names]))
    return names


def _keep_columns(schema: StructType, names: Collection[str], row_fields: Collection[str]) -> StructType:
    """Return the schema of a value or a key, its rows with these columns only."""
    from pyspark.sql.types import StructField, StructType

    rows = [name for name in row_fields if _names(schema, name)]
    if not rows:
        return StructType([field for field in schema if field.name in names])
    fields = []
    for field in schema:
        row: Any = field.dataType
        kept = StructType([inner for inner in row if inner.name in names]) if field.name in rows else row
        fields.append(StructField(field.name, kept))
    return StructType(fields)


def _select(is_part: Column, in_files: bool, frame: DataFrame) -> DataFrame:  # noqa: FBT001 - bound by `partial`
    """Return the events of a part."""
    frame = E.drop_tombstones(frame)
    if not in_files:
        return frame.where(is_part)
    # Dead letters are numbered within the file, across all parts.
    frame = frame.withColumn(E.OFFSET, number_in_file(E.OFFSET, E.FILE, E.PLACE)).where(is_part)
    return keep_numbers(frame, E.OFFSET, E.FILE, E.PLACE)


def _load_part(
    events: Events,
    select: Callable[[DataFrame], DataFrame],
    session: SparkSession,
    schema: StructType,
    *,
    key: Collection[str] | None = None,
) -> DataFrame:
    """Load the events of a part. Every record of the topic is read for it."""
    from pyspark.sql import functions as F

    frame = select(events.load(session, schema))
    if key is None:
        return frame
    fields = F.struct(*[F.col(E.KEY).getField(name).alias(name) for name in key])
    return frame.withColumn(E.KEY, F.when(F.col(E.KEY).isNotNull(), fields))


def _load_others(
    events: Events,
    has_name: Column,
    select: Callable[[DataFrame], DataFrame],
    session: SparkSession,
    schema: StructType,
) -> DataFrame:
    """Load the events without a part. Events that name a table are rejected, because the name is not valid."""
    from pyspark.sql import functions as F

    frame = _load_part(events, select, session, schema)
    return frame.withColumn(E.ERROR, F.when(has_name, F.lit(RejectReason.TABLE_NAME)).otherwise(F.col(E.ERROR)))


def _names(schema: StructType | None, name: str) -> Sequence[str]:
    """Return the fields of a struct field."""
    names: Sequence[str] = (
        getattr(schema[name].dataType, "names", ()) if schema is not None and name in schema.names else ()
    )
    return names
