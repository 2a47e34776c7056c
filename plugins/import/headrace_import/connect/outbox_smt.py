"""Debezium's router of the events of an outbox table, as the transform ``outbox`` and a rule of ``tables:``."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase

from headrace_import.connect.predicates import read_condition
from headrace_import.connect.routing_smts import check_pattern, is_table_name
from headrace_import.connect.smt import Imported, NotImportableError, Smt, copy_options, make_step
from headrace_import.connect.topics import Topics
from headrace_import.import_report import Kind
from headrace_import.pipeline_draft import Block, Line

_BY_VALUE = re.compile(r"\$(?:\{routedByValue\}|\{1\}|1)")
#: Text at the start of a regular expression.
_HEAD = re.compile(r"(?:[\w-]|\[[.]\])*")
#: Regular expressions that match the whole value.
_WHOLE = ("(?<routedByValue>.*)", "(?P<routedByValue>.*)", "(.*)")
_KEY, _BEHAVIOR, _BEHAVIORS = "table.field.event.key", "table.op.invalid.behavior", ("warn", "error", "fatal")
#: Options with an older name.
_OLDER = {
    _KEY: ("table.field.event.payload.id", "table.field.payload.id"),
    "table.field.event.payload": ("table.field.payload",),
    _BEHAVIOR: ("debezium.op.invalid.behavior",),
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
            is_behavior = name == _BEHAVIOR and smt.get(used).lower() in _BEHAVIORS  # Debezium ignores the case.
            options.add(name, smt.get(used).lower() if is_behavior else smt.read(used), smt.cite(used))
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
    """Import further columns. A partition of a topic is none, and a table has one column of a name."""
    key = options.entries.get(_KEY)
    names, columns = {str(key.value if isinstance(key, Line) else "aggregateid").lower()}, []
    for item in smt.list_items(_PLACEMENT):
        column, place, alias = [*item.split(":"), "", ""][:3]
        name = (alias or column).lower()
        if place == "partition" or name in names:
            why = "partitions of a topic have no meaning for a table"
            if place != "partition":
                why = f"the table has a column {alias or column} already"
            smt.settings.report.add(Kind.NO_MEANING, smt.settings.place, [smt.prefix + _PLACEMENT], why)
            smt.cite(_PLACEMENT)
        else:
            columns.append(item)
            names.add(name)
    if columns:
        options.add(_PLACEMENT, ",".join(columns), smt.cite(_PLACEMENT))


def exclude_other_tables(options: Block, rule: Block, topics: Topics) -> bool:
    """Exclude the tables of other topics from the globs of a step. Return False for topics whose names are not known."""
    tables, source = options.entries.get("tables"), rule.entries["source"]
    if not isinstance(tables, Line) or not isinstance(source, Line):
        return True
    if topics.pattern:
        start, head = tables.value.partition("*")[0], _HEAD.match(topics.pattern)
        literal = head[0].replace("[.]", ".") if head else ""
        return not start.startswith(literal) and not literal.startswith(start)
    own = re.compile(source.value[1:-1])
    others = [name for name in topics.names if not own.fullmatch(name) and fnmatchcase(name, tables.value)]
    if others:
        options.add("tables.exclude", others, "the other topics")
    return True


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
