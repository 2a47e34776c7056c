"""Rows from the events of an outbox table, with the options of Debezium's EventRouter."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, field_validator, model_validator

from headrace.sdk import Changes, DataError, HeadraceError, Transform, TransformConfig, changes as C
from headrace.sdk.columns import any_of, fold_name, match_names
from headrace.sdk.error_text import full_text, text_after_raised
from headrace.sdk.reject_reason import RejectReason
from headrace.sdk.rows import list_fields, reject_rows, unavailable_flags
from headrace_transforms.json_columns import JsonColumnReader, parse_type, read_as

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

_PARSED = f"{C.PREFIX}parsed"
_UPDATED = "<headrace-outbox-updated>"
_UPDATE = "an update of the outbox table, which has inserts and deletes only"
#: headrace's columns about the row of the outbox table, which is another row than that of the event.
_OF_OUTBOX = (C.NEW_KEY, C.KEY_CHANGE_POSITION, C.SNAPSHOT, C.UNAVAILABLE)
#: Options of the event router that have no meaning for a table.
_PLACE_IT = "to keep it, name it in `table.fields.additional.placement`: `COLUMN:header`"
_ROUTE_IT = (
    "rules of `tables:` route events to tables",
    "write `tables: - {source: …, route.by.field: after.aggregatetype, target: 'outbox.event.{topic}'}`",
)
_EXPLAINED = {
    "table.field.event.id": ("a table has no headers", _PLACE_IT),
    "table.field.event.type": ("a table has no headers", _PLACE_IT),
    "table.field.event.timestamp": ("a row has no timestamp of a record", _PLACE_IT),
    "table.field.event.schema.version": ("a table has no schema version", _PLACE_IT),
    "table.json.payload.null.behavior": ("a null has the type of `payload.schema`", "remove it"),
    **dict.fromkeys(("route.by.field", "route.topic.regex", "route.topic.replacement"), _ROUTE_IT),
}


@dataclass(frozen=True)
class _Placement:
    """Item of ``table.fields.additional.placement``."""

    field: str
    is_in_envelope: bool
    column: str


class OutboxConfig(TransformConfig):
    """Options of Debezium's outbox event router, under their original names. The rules of ``tables:`` route the events."""

    explained = _EXPLAINED

    key: str = Field("aggregateid", alias="table.field.event.key", min_length=1)
    """Column of the outbox table with the key of the event: the key column of the resulting table."""

    payload: str = Field("payload", alias="table.field.event.payload", min_length=1)
    """Column of the outbox table with the payload."""

    expands_payload: bool = Field(default=False, alias="table.expand.json.payload")
    """Whether the payload is JSON text to parse, with ``payload.schema``. Its fields become columns, or the column ``payload``
    if a column is placed in the envelope.
    """

    payload_schema: str | dict[str, str] | None = Field(None, alias="payload.schema")
    """Type of the parsed payload in Spark SQL: ``id INT, total DECIMAL(10,2)``, or ``ARRAY<INT>``. Or a mapping: a table or a glob
    (``*``) → the type; the payload of other tables stays text. Fields that the type lacks are left out.
    """

    placement: str = Field("", alias="table.fields.additional.placement")
    """Further columns, as a list with commas: ``column:header``, ``column:envelope:alias``. Both become columns of the table."""

    fails_on_missing: bool = Field(default=True, alias="table.fields.additional.error.on.missing")
    """Whether a further column that the outbox table lacks is an error; otherwise it is left out."""

    deletes_empty: bool = Field(default=False, alias="route.tombstone.on.empty.payload")
    """Whether an event with a null or blank payload removes the row of its key."""

    updates: Literal["warn", "error", "fatal"] = Field("warn", alias="table.op.invalid.behavior")
    """Update of a row of the outbox table: ``warn`` leaves it out and counts it, ``error`` makes it a dead letter, and ``fatal``
    stops the table.
    """

    @field_validator("when")
    @classmethod
    def _no_condition(cls, value: str | None) -> str | None:
        if value is not None:
            raise ValueError("a table has either envelopes or rows: select tables with `tables`")
        return value

    @model_validator(mode="after")
    def _valid_columns(self) -> OutboxConfig:
        if self.expands_payload != bool(self.payload_schema):
            raise ValueError("`table.expand.json.payload: true` and `payload.schema` belong together")
        names = [fold_name(name) for name in (self.key, *(item.column for item in self.list_placements()))]
        if repeated := next((name for name in names if names.count(name) > 1 or name.startswith(C.PREFIX)), None):
            raise ValueError(f"{repeated!r} is the key column, or repeated, or no name of a column: give it an alias")
        return self

    def list_placements(self) -> list[_Placement]:
        """Return the further columns. ValueError for an item that is none."""
        found = []
        for item in filter(None, (part.strip() for part in self.placement.split(","))):
            name, place, alias = [*item.split(":"), "", ""][:3]
            if not name or place not in ("header", "envelope") or item.count(":") > 2:
                reason = "a table has no partitions of a topic" if place == "partition" else "not a placement"
                raise ValueError(f"{item!r}: {reason}; write `column:header` or `column:envelope:alias`")
            found.append(_Placement(name, place == "envelope", alias or name))
        return found

    def schema_of(self, table: str | None) -> str | None:
        """Return the type of a table's payload; None if it stays text."""
        if not isinstance(self.payload_schema, dict):
            return self.payload_schema
        return next((kind for glob, kind in self.payload_schema.items() if table and fnmatchcase(table, glob)), None)


class Outbox(Transform):
    """``outbox: {}``: one row per aggregate, from the latest event. Deletes and truncates of the outbox table are left out."""

    name = "outbox"
    api_version = 1
    flattens = True
    filters = True
    ignores_deletes = True
    Config = OutboxConfig
    config: OutboxConfig

    def __init__(self, config: Any = None, **options: Any) -> None:
        super().__init__(config, **options)
        self.deletes_rows = self.config.deletes_empty
        self._readers: dict[str, JsonColumnReader] = {}

    def check(self, spark: SparkSession | None = None) -> None:
        super().check(spark)
        kinds = self.config.payload_schema or {}
        for text in kinds.values() if isinstance(kinds, dict) else [kinds]:
            if spark is not None:
                parse_type(text, "payload.schema")

    def reads(self) -> Collection[str]:
        placed = [item.field for item in self.config.list_placements()] if self.config.fails_on_missing else []
        return [self.config.key, self.config.payload, *placed]

    def explain(self, error: BaseException) -> HeadraceError | None:
        if text_after_raised(_UPDATED, full_text(error)) is None:
            return None
        fix = "insert a row for each event; `table.op.invalid.behavior: error` turns updates into dead letters"
        return DataError(_UPDATE, fix=fix)

    def apply(self, changes: Changes) -> Changes:
        if not changes.envelope:
            if changes.own_columns:
                fix = "it takes the place of `unwrap`; limit both with `tables` if the pipeline has other tables"
                raise DataError("its input has rows in place of envelopes", fix=fix)
            return changes
        kept = self._keep_events(changes)
        is_unrouted = changes.table is None and bool(changes.own_columns)
        return _reject_unrouted(kept) if is_unrouted else self._make_rows(kept)

    def _keep_events(self, changes: Changes) -> Changes:
        """Leave out deletes, truncates, tombstones, and updates unless they are dead letters."""
        from pyspark.sql import functions as F

        op = F.col(C.OP if C.OP in changes.own_columns else "op")
        is_update = F.coalesce(op == "u", F.lit(False))
        if self.config.updates == "error":
            changes = reject_rows(changes, {_UPDATE: is_update})
        is_kept = F.coalesce(op.isin("c", "r"), F.lit(False))
        if C.ERROR in changes.own_columns:
            # A truncate of the outbox table must not empty the table of an aggregate.
            is_kept |= F.coalesce(F.col(C.ERROR) != RejectReason.TRUNCATED, F.lit(False))
        if self.config.updates == "fatal":
            is_kept |= F.when(is_update, F.raise_error(F.lit(_UPDATED)).cast("boolean")).otherwise(F.lit(False))
        return replace(changes, frame=changes.frame.where(is_kept), position_parts=None)

    def _make_rows(self, changes: Changes) -> Changes:
        """Return flat rows: the key, the payload, then the further columns."""
        from pyspark.sql import functions as F

        row, config = self._find_columns(changes), self.config
        if flags := unavailable_flags(changes, self.reads()):
            test = {"a column of the outbox table has a value that the event omits": any_of(flags)}
            changes = reject_rows(changes, test)
        marked = self._mark_empty(changes, row.get(config.payload))
        parsed, payload = self._read_payload(marked, row.get(config.payload))
        placements = [item for item in config.list_placements() if item.field in row]
        placements.sort(key=lambda item: not item.is_in_envelope)
        pairs = [(config.key, config.key, row.get(config.key, F.lit(None).cast("string")))]
        pairs += [(name, config.payload, column) for name, column in payload.items()]
        pairs += [(item.column, item.field, row[item.field]) for item in placements]
        _reject_duplicates([name for name, _, _ in pairs])
        own = {
            name: F.col(name) for name in parsed.own_columns if name not in (*_OF_OUTBOX, _PARSED, f"{_PARSED}_error")
        }
        if own:
            own[C.KEY] = F.struct(pairs[0][2].alias(config.key))
        columns = {name: column for name, _, column in pairs} | own
        frame = parsed.frame.select(*[column.alias(name) for name, column in columns.items()])
        derived = {name: changes.derived.get(source, frozenset()) | {fold_name(source)} for name, source, _ in pairs}
        derived = {name: sources - {fold_name(name)} for name, sources in derived.items()}
        return replace(parsed, frame=frame, envelope=False, origins={}, derived=derived)

    def _find_columns(self, changes: Changes) -> dict[str, Column]:
        """Return column of the outbox table, as the options name it → its value. DataError if one is missing."""
        from pyspark.sql import functions as F

        fields = list_fields(changes, "after")
        wanted = dict.fromkeys([*self.reads(), *(item.field for item in self.config.list_placements())])
        found = {name: field for field, name in match_names(changes.frame.sparkSession, wanted, fields).items()}
        if missing := next((name for name in self.reads() if fields and name not in found), None):
            raise DataError(
                f"the outbox table has no column {missing!r}; its columns are {', '.join(fields)}",
                fix="name its columns in `table.field.event.key`, `table.field.event.payload` and "
                "`table.fields.additional.placement`",
            )
        return {name: F.col("after").getField(field) for name, field in found.items()}

    def _mark_empty(self, changes: Changes, payload: Column | None) -> Changes:
        """Turn events without a payload into deletes, if the option says so."""
        from pyspark.sql import functions as F

        if not self.config.deletes_empty or payload is None:
            return changes
        is_empty = F.col("after").isNotNull() & (F.coalesce(F.trim(payload.cast("string")), F.lit("")) == "")
        if C.DELETED not in changes.own_columns:  # a DataFrame outside of a pipeline
            return replace(changes, frame=changes.frame.where(~is_empty))
        marks = {C.DELETED: F.col(C.DELETED) | is_empty, C.OP: F.when(is_empty, "d").otherwise(F.col(C.OP))}
        return replace(changes, frame=changes.frame.withColumns(marks))

    def _read_payload(self, changes: Changes, payload: Column | None) -> tuple[Changes, dict[str, Column]]:
        """Return the columns of the payload. An event whose payload cannot be parsed is rejected."""
        from pyspark.sql import functions as F

        text = self.config.schema_of(changes.table)
        if text is None or payload is None:
            return changes, {"payload": F.lit(None).cast("string") if payload is None else payload}
        _refuse_other_types(changes, payload)
        kind = parse_type(text, "payload.schema")
        if text not in self._readers:  # Opening a reader runs a Spark job.
            self._readers[text] = read_as(changes.frame.sparkSession, kind)
        frame = self._readers[text].parse(changes.frame, payload, _PARSED)
        reason = f"the column `{self.config.payload}` is not JSON of the type in `payload.schema`"
        parsed = reject_rows(replace(changes, frame=frame), {reason: F.col(f"{_PARSED}_error").isNotNull()})
        value = F.col(_PARSED)
        is_in_envelope = any(item.is_in_envelope for item in self.config.list_placements())
        names = () if is_in_envelope else getattr(kind, "names", ())
        return parsed, {name: value.getField(name) for name in names} or {"payload": value}


def _reject_unrouted(changes: Changes) -> Changes:
    """Reject the events that name no table. Without columns, no table is created for them and for the deletes of the topic."""
    from pyspark.sql import functions as F

    rejected = reject_rows(changes, {"no column of `route.by.field` names the table of the event": F.lit(True)})
    frame = rejected.frame.select(*[name for name in rejected.own_columns if name not in _OF_OUTBOX])
    return replace(rejected, frame=frame, envelope=False, origins={}, derived={})


def _refuse_other_types(changes: Changes, payload: Column) -> None:
    found = changes.frame.select(payload).schema[0].dataType.simpleString()
    if found not in ("string", "void"):
        raise DataError(
            f"the payload is of the type {found}, and JSON is text", fix="remove `table.expand.json.payload`"
        )


def _reject_duplicates(names: Collection[str]) -> None:
    folded = [fold_name(name) for name in names]
    if repeated := next((name for name in names if folded.count(fold_name(name)) > 1), None):
        raise DataError(
            f"two columns would be named {repeated!r}",
            fix="give a column of `table.fields.additional.placement` an alias, or leave it out of `payload.schema`",
        )
