"""Topics → tables."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from headrace.config.model import TableRule, is_regex
from headrace.config.table_names import check_table_name
from headrace.errors import DataError

if TYPE_CHECKING:
    from headrace.sdk.events import Events


@dataclass(frozen=True)
class Route:
    """Where a topic's changes go, and the key columns the pipeline file names for it."""

    table: str
    key: tuple[str, ...] = ()
    #: Column → the type that the pipeline file gives it.
    columns: Mapping[str, str] = field(default_factory=dict)
    #: The fields by whose values a topic's changes are of one table or another.
    by: tuple[str, ...] = ()
    #: The tables of the database that a topic has are one table here.
    is_logical_table: bool = False


class Routes:
    """The rules of ``tables:`` in their order; the first that matches a topic decides."""

    def __init__(self, rules: Sequence[TableRule]) -> None:
        self._rules = rules
        #: Topic → its table: rules are compared with each topic once, not for every table of every batch.
        self._tables: dict[str, str | None] = {}

    def of(self, topic: str, part: str | None = None) -> Route | None:
        """The route of a topic, or of one part of it; None when there are rules and none of them matches."""
        if not self._rules:
            return Route(_table_name(None, topic))
        rule = self._rule_of(topic)
        if rule is None:
            return None
        table = _table_name(rule.target, part or topic)
        return Route(table, rule.key_of(part), rule.columns, rule.route_by_field, rule.logical_table)

    def table_of(self, topic: str) -> str | None:
        """Return the table of a whole topic; None if no rule matches it."""
        if topic not in self._tables:
            found = self.of(topic)
            self._tables[topic] = found.table if found else None
        return self._tables[topic]

    def key_columns(self, topic: str) -> tuple[str, ...]:
        """The key columns that the pipeline file names for a topic, whichever of its tables they are of."""
        rule = self._rule_of(topic)
        return rule.key_columns if rule else ()

    def columns(self, topic: str) -> Mapping[str, str]:
        """The types that the pipeline file gives to a topic's columns."""
        route = self.of(topic)
        return route.columns if route else {}

    def _rule_of(self, topic: str) -> TableRule | None:
        return next((rule for rule in self._rules if _matches(rule.source, topic)), None)


@dataclass(frozen=True)
class Target:
    """A table with the events that a batch has for it."""

    name: str
    sources: tuple[tuple[Events, Route], ...]

    @property
    def topics(self) -> list[str]:
        return list(dict.fromkeys(events.topic for events, _ in self.sources))


def route(events: Sequence[Events], routes: Routes) -> tuple[list[Target], tuple[str, ...]]:
    """The tables that events are for, all topics of one together, and the topics that no rule names."""
    by_table: dict[str, list[tuple[Events, Route]]] = {}
    unrouted = []
    for item in events:
        found = routes.of(item.topic, item.part)
        if found is None:
            unrouted.append(item.topic)
        else:
            by_table.setdefault(found.table, []).append((item, found))
    return [Target(name, tuple(sources)) for name, sources in by_table.items()], tuple(unrouted)


def _matches(pattern: str, topic: str) -> bool:
    if is_regex(pattern):
        return re.fullmatch(pattern[1:-1], topic) is not None
    return fnmatchcase(topic, pattern)


def _table_name(target: str | None, topic: str) -> str:
    parts = topic.split(".")
    fields = {
        "topic": topic,
        "prefix": parts[0],
        "db": parts[-3] if len(parts) > 2 else parts[0],
        "schema": parts[-2] if len(parts) > 1 else parts[0],
        "table": parts[-1],
    }
    try:
        return check_table_name(target.format(**fields) if target else topic)
    except ValueError as error:
        raise DataError(str(error), where=f"topic {topic}", fix="name a `target:` for it under `tables:`") from None
