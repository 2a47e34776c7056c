"""Names that the strategies of Debezium's source connectors give to topics."""

from __future__ import annotations

from headrace_import.connect.topics import Topics, route_name
from headrace_import.import_report import Kind
from headrace_import.settings import Settings

_STRATEGY, _REGEX, _REPLACEMENT = "topic.naming.strategy", "topic.regex", "topic.replacement"
_UNIQUE, _KEY_FIELD = "topic.key.enforce.uniqueness", "topic.key.field.name"
_KEY_OPTIONS = (_UNIQUE, _KEY_FIELD, "topic.key.field.regex", "topic.key.field.replacement")
#: First level below the prefix → the strategies whose names have it: the default one, and the one with a regular expression.
_OF_LEVEL = {
    level: tuple(f"io.debezium.schema.{name}{kind}TopicNamingStrategy" for kind in ("", "Regex"))
    for level, name in {"schema": "Schema", "database": "Default"}.items()
}


def apply_strategy(settings: Settings, topics: Topics, level: str) -> Topics:
    """Return the topics under the names of the connector's strategy, and report names that are not known here."""
    default, regex = _OF_LEVEL[level]
    if settings.get(_STRATEGY) in ("", default):
        settings.ignore([_STRATEGY], f"it names topics by prefix, {level} and table, as the file expects")
        return topics
    names = [_route(settings, name) for name in topics.names] if settings.get(_STRATEGY) == regex else []
    if not names or None in names:
        why = "this strategy may give topics other names than the file has"
        fix = "name the topics of the connector in `subscribe`"
        settings.reject([_STRATEGY, _REGEX, _REPLACEMENT], why, fix, Kind.TO_DO)
    else:
        comment = settings.cite(_STRATEGY, _REGEX, _REPLACEMENT)
        topics = Topics(tuple(dict.fromkeys(filter(None, names))), comment=f"{topics.comment}; {comment}")
        _report_keys(settings, is_merged=len(topics.names) < len(names))
    settings.ignore(_KEY_OPTIONS, "the connector still makes the keys")
    return topics


def names_tables(settings: Settings) -> bool:
    """Return whether the names of topics end in those of the tables."""
    return settings.get(_STRATEGY) in ("", *(default for default, _ in _OF_LEVEL.values()))


def _route(settings: Settings, name: str) -> str | None:
    routed = None if "${" in name else route_name(name, settings.get(_REGEX), settings.get(_REPLACEMENT))
    return name if routed == "" else routed  # Debezium keeps the name in the place of an empty one.


def _report_keys(settings: Settings, *, is_merged: bool) -> None:
    """Report tables with one topic whose records have no field that headrace recognizes as the name of the table."""
    is_marked = settings.get(_UNIQUE).lower() != "false" and not settings.get(_KEY_FIELD)
    if is_merged and not is_marked:
        why = "several tables have one topic, and the record keys have no field `__dbz__physicalTableIdentifier`"
        fix = "`logical.table: true` in the rule of the topic, if the keys are unique across the tables: `tables:`"
        settings.reject([_UNIQUE, _KEY_FIELD], why, fix, Kind.TO_DO)
