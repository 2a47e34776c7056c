"""Debezium's router of the events of an outbox table, as the transform ``outbox`` and a rule of ``tables:``."""

from __future__ import annotations

import re

from headrace_import.connect.predicates import read_condition
from headrace_import.connect.routing_smts import check_pattern, is_table_name
from headrace_import.connect.smt import Imported, NotImportableError, Smt, copy_options, make_step, typed
from headrace_import.import_report import Kind
from headrace_import.pipeline_draft import Block, Line

_BY_VALUE = re.compile(r"\$(?:\{routedByValue\}|\{1\}|1)")
#: Regular expressions that match the whole value.
_WHOLE = ("(?<routedByValue>.*)", "(.*)")
#: Options with an older name.
_OLDER = {
    "table.field.event.key": ("table.field.event.payload.id", "table.field.payload.id"),
    "table.field.event.payload": ("table.field.payload",),
    "table.op.invalid.behavior": ("debezium.op.invalid.behavior",),
}
_PLACEMENT, _EXPANDS, _DELETES = (
    "table.fields.additional.placement",
    "table.expand.json.payload",
    "route.tombstone.on.empty.payload",
)


def import_event_router(smt: Smt) -> Imported:
    """Import the routes of events to tables, and their rows."""
    rule, condition = _make_rule(smt), read_condition(smt)
    step, options = make_step(smt, "outbox")
    for name, older in _OLDER.items():
        if used := next((option for option in (name, *older) if smt.get(option)), None):
            options.add(name, typed(smt.read(used)), smt.cite(used))
    copy_options(smt, options, "table.fields.additional.error.on.missing", _DELETES)
    _import_placement(smt, options)
    if condition:
        # The target of the rule names the tables, and other tables have no outbox events.
        target = rule.entries["target"]
        assert isinstance(target, Line)
        options.add("tables", target.value.replace("{topic}", "*"), smt.settings.cite(*condition.keys))
    _report_rest(smt)
    return Imported([step], [rule], takes_condition=False)


def keep_empty_events(smt: Smt, options: Block) -> None:
    """Remove the option that removes rows, for a sink that cannot remove them."""
    if options.entries.pop(_DELETES, None):
        smt.settings.report.add(
            Kind.NOT_IMPORTED, smt.settings.place, [smt.prefix + _DELETES], "the sink only appends", None
        )


def _make_rule(smt: Smt) -> Block:
    """Return the rule that routes the events of the topics that a predicate selects, or of all topics."""
    condition = read_condition(smt)
    pattern = condition.topics if condition and smt.get("negate").lower() != "true" else None
    if condition and pattern is None:
        raise NotImportableError(
            "its predicate does not select topics by their names", "write a rule for the topics in `tables:`"
        )
    if pattern is not None:
        check_pattern(pattern)
    replacement = smt.get("route.topic.replacement", "outbox.event.${routedByValue}")
    target = _BY_VALUE.sub("{topic}", replacement)
    if smt.get("route.topic.regex", _WHOLE[0]) not in _WHOLE or not is_table_name(target.replace("{topic}", "x")):
        raise NotImportableError(
            "its topic is not text around the whole value of the column",
            "write `target:` in a rule of `tables:` with `route.by.field`; `{topic}` is the value",
        )
    rule = Block()
    keys = condition.keys if condition else ()
    origin = "; ".join(filter(None, [smt.cite("type"), smt.settings.cite(*keys)]))
    rule.add("source", "*" if pattern is None else f"/{pattern}/", origin)
    column = smt.get("route.by.field", "aggregatetype")
    rule.add("route.by.field", f"after.{column}", smt.cite("route.by.field") or "default of the router")
    rule.add("target", target, smt.cite("route.topic.regex", "route.topic.replacement") or "default of the router")
    return rule


def _import_placement(smt: Smt, options: Block) -> None:
    """Import further columns. A partition of a topic is none."""
    items = smt.list_items(_PLACEMENT)
    columns = [item for item in items if item.split(":")[1:2] != ["partition"]]
    if columns:
        options.add(_PLACEMENT, ",".join(columns), smt.cite(_PLACEMENT))
    if len(columns) < len(items):
        why = "partitions of a topic have no meaning for a table"
        smt.settings.report.add(Kind.NO_MEANING, smt.settings.place, [smt.prefix + _PLACEMENT], why)
        smt.cite(_PLACEMENT)


def _report_rest(smt: Smt) -> None:
    """Report the options without a counterpart."""
    if smt.get(_EXPANDS).lower() == "true":
        smt.settings.reject(
            [smt.prefix + _EXPANDS],
            "the payload stays JSON text, because its type is not in this file",
            f"`{_EXPANDS}: true` and `payload.schema` in `outbox`",
        )
    place_it = "a table has no headers and no schema version; `table.fields.additional.placement` keeps the column"
    fields = [f"{smt.prefix}table.field.{name}" for name in ("event.id", "event.type", "type", "event.timestamp")]
    smt.settings.ignore_matches([*fields, f"{smt.prefix}table.field.*schema.version"], place_it)
    smt.settings.ignore_matches([f"{smt.prefix}{_EXPANDS}"], "the payload stays text")
    smt.settings.ignore_matches([f"{smt.prefix}table.json.payload.null.behavior"], "a null has the type of the column")
    smt.settings.ignore_matches([f"{smt.prefix}tracing.*"], "headrace has no tracing")
