"""Routing of topics to tables."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from urllib.parse import quote

from headrace.config.model import TableRule, is_regex
from headrace.config.table_names import check_table_name
from headrace.errors import DataError
from headrace.sdk.events import Events
from headrace.sdk.schema_log import PART_MARK

#: Maximum length of a topic and the name of one of its tables, encoded as a file name. File systems allow 255 bytes.
MAX_PART_CHARACTERS = 200


@dataclass(frozen=True)
class Route:
    """Target table of a topic's changes, and the key columns of the pipeline file."""

    table: str
    key: tuple[str, ...] = ()
    #: Column → its type in the pipeline file.
    columns: Mapping[str, str] = field(default_factory=dict)
    #: Fields whose values decide the table of a change.
    by: tuple[str, ...] = ()
    #: Whether several source tables of a topic form one target table.
    is_logical_table: bool = False
    #: The name of the topic gives no valid table name. ``table`` is the topic's name; only this table fails.
    error: DataError | None = None


class Routes:
    """Rules of ``tables:`` in their order. The first rule that matches a topic applies."""

    def __init__(self, rules: Sequence[TableRule]) -> None:
        self._rules = rules
        #: Topic → its table: rules are compared with each topic once, not for every table of every batch.
        self._tables: dict[str, str | None] = {}

    def of(self, topic: str, part: str | None = None) -> Route | None:
        """Return the route of a topic or of one part of it; None if there are rules and none matches."""
        rule = self._rule_of(topic)
        if rule is None and self._rules:
            return None
        name = part or topic
        try:
            table, error = _table_name(rule.target if rule else None, name), None
        except DataError as raised:
            table, error = name, raised
        if rule is None:
            return Route(table, error=error)
        return Route(table, rule.key_of(part), rule.columns, rule.route_by_field, rule.logical_table, error)

    def table_of(self, topic: str) -> str | None:
        """Return the table of a whole topic; None if no rule matches it."""
        if topic not in self._tables:
            found = self.of(topic)
            self._tables[topic] = found.table if found else None
        return self._tables[topic]

    def key_columns(self, topic: str) -> tuple[str, ...]:
        """Return the key columns of the pipeline file for a topic, for all its tables."""
        rule = self._rule_of(topic)
        return rule.key_columns if rule else ()

    def of_subject(self, topic: str) -> Route | None:
        """Return the route of a subject's topic, which may be a part of a topic."""
        whole, _, part = topic.partition(PART_MARK)
        return self.of(whole, part or None)

    def columns(self, topic: str) -> Mapping[str, str]:
        """Return the column types of the pipeline file for a subject's topic."""
        route = self.of_subject(topic)
        return route.columns if route else {}

    def splits(self, topic: str) -> bool:
        """Return whether a field of the records splits a topic into several tables."""
        route = self.of(topic) if PART_MARK not in topic else None
        return bool(route and route.by)

    def accepts(self, topic: str, part: str) -> bool:
        """Return whether the name of a part of a topic is a valid table name."""
        if len(quote(f"{topic}{PART_MARK}{part}", safe="")) > MAX_PART_CHARACTERS:
            return False
        found = self.of(topic, part)
        return found is not None and found.error is None

    def _rule_of(self, topic: str) -> TableRule | None:
        return next((rule for rule in self._rules if _matches(rule.source, topic)), None)


@dataclass(frozen=True)
class Target:
    """Table with its events of a batch."""

    name: str
    sources: tuple[tuple[Events, Route], ...]

    @property
    def topics(self) -> list[str]:
        return list(dict.fromkeys(events.topic for events, _ in self.sources))

    @property
    def is_whole(self) -> bool:
        """Whether it is a topic of several tables that could not be read."""
        return any(route.by and events.part is None and events.error for events, route in self.sources)


def route(events: Sequence[Events], routes: Routes) -> tuple[list[Target], tuple[str, ...]]:
    """Return the target tables with the events of all their topics, and the topics that no rule matches.

    A topic whose name gives no valid table name is a table that cannot be read.
    """
    by_table: dict[str, list[tuple[Events, Route]]] = {}
    unrouted = []
    for item in events:
        found = routes.of(item.topic, item.part)
        if found is None:
            unrouted.append(item.topic)
        else:
            readable = Events.of_failure(item.topic, found.error) if found.error else item
            by_table.setdefault(found.table, []).append((readable, found))
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
