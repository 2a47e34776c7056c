"""Routing of topics to tables."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cached_property
from urllib.parse import quote

from headrace.checkpoint.offset_log import digest_offsets
from headrace.config.model import TableRule, is_regex
from headrace.config.table_names import check_table_name
from headrace.engine.plan.table_options import TableOptions
from headrace.errors import ConfigError, DataError, HeadraceError
from headrace.sdk.events import Events
from headrace.sdk.schema_log import PART_MARK
from headrace.spark.columns import fold_name

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
    #: Columns that order the changes of a key; empty: their positions do.
    order_by: tuple[str, ...] = ()
    #: The name of the topic gives no valid table name, and ``table`` is the topic's name; or the rules of the table's topics
    #: contradict each other. Only this table fails.
    error: HeadraceError | None = None


class Routes:
    """Rules of ``tables:`` in their order. The first rule that matches a topic decides its table.

    The options of a table are those of its topics. They are known from the first route of one of them on.
    """

    def __init__(
        self,
        rules: Sequence[TableRule],
        check: Callable[[TableOptions], object] = lambda options: None,
        views: Collection[str] = (),
    ) -> None:
        """``check``: raises ConfigError for options that the sinks of the pipeline reject; ``views``: names of the views."""
        self._rules, self._check, self._views = rules, check, {fold_name(view) for view in views}
        #: Topic → its table: rules are compared with each topic once, not for every table of every batch.
        self._tables: dict[str, str | None] = {}
        #: Topic → numbers of all rules that match it; such numbers → options; table → options.
        self._matches: dict[str, tuple[int, ...]] = {}
        self._options: dict[tuple[int, ...], TableOptions | None] = {}
        self._errors: dict[tuple[int, ...], ConfigError] = {}
        self._table_options: dict[str, TableOptions | None] = {}
        #: Table → a topic of it, or a part of a topic.
        self._subjects: dict[str, str] = {}
        #: Table → the columns that order its changes.
        self._orders: dict[str, tuple[str, ...]] = {}

    def of(self, topic: str, part: str | None = None) -> Route | None:
        """Return the route of a topic or of one part of it; None if there are rules and none matches."""
        rule = self._rule_of(topic)
        if rule is None and self._rules:
            return None
        table, name_error = _try_table_name(rule, part or topic, topic)
        if fold_name(table) in self._views:
            name_error = DataError(
                "a view has the name of the table",
                where=f"topic {topic}",
                fix="give the view or the table another name",
            )
        if rule is None:
            return Route(table, error=name_error)
        self._subjects.setdefault(table, f"{topic}{PART_MARK}{part}" if part else topic)
        error = name_error or self._note_options(table, topic) or self._note_order(table, rule.order_by, topic)
        return Route(
            table,
            rule.key_of(part),
            rule.columns,
            rule.route_by_field,
            rule.logical_table,
            rule.order_by,
            error,
        )

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
        rule = self._rule_of(topic)
        return bool(rule or not self._rules) and _try_table_name(rule, part, topic)[1] is None

    def options_of(self, table: str) -> TableOptions | None:
        """Return the options of a table; None if it has none, or if no topic of it is known yet."""
        return self._table_options.get(table)

    @cached_property
    def rule_options(self) -> dict[str, TableOptions]:
        """Place of each rule with options → its options without those of other rules."""
        found = {f"tables[{number}]": TableOptions.of_rules([rule]) for number, rule in enumerate(self._rules)}
        return {place: options for place, options in found.items() if options is not None}

    @property
    def may_use_all_sinks(self) -> bool:
        """Whether a table may have all sinks of the pipeline."""
        return not self._rules or any(rule.sinks is None for rule in self._rules)

    @property
    def subjects(self) -> list[str]:
        """A topic, or a part of a topic, of each table whose options are known."""
        return list(self._subjects.values())

    @property
    def tables(self) -> list[str]:
        """Tables whose options are known."""
        return list(self._table_options)

    def learn(self, subjects: Iterable[str]) -> None:
        """Make the options of the tables of known topics, or of parts of topics, known."""
        for subject in subjects:
            self.of_subject(subject)

    def _note_options(self, table: str, topic: str) -> HeadraceError | None:
        """Note the options of a table.

        Return the error of invalid options, or of a topic whose options differ from those of the table's other topics.
        """
        rules = self._matching_rules(topic)
        options = self._merge_options(rules)
        if error := self._errors.get(rules):
            return error
        if self._table_options.setdefault(table, options) is options:
            return None
        return DataError(
            "the rules of its topics give the table different options",
            where=f"table {table}, topic {topic}",
            fix="set the same options in all rules of `tables:` whose `target:` is this table",
        )

    def _note_order(self, table: str, order_by: tuple[str, ...], topic: str) -> HeadraceError | None:
        """Note the order of a table. Return the error of a topic whose order differs from that of the table's other topics."""
        if self._orders.setdefault(table, order_by) == order_by:
            return None
        return DataError(
            "the rules of its topics have different `order.by`, and their positions cannot be compared",
            where=f"table {table}, topic {topic}",
            fix="set the same `order.by` in all rules of `tables:` whose `target:` is this table",
        )

    def _merge_options(self, rules: tuple[int, ...]) -> TableOptions | None:
        """Return the options of rules, by their numbers: always the same object for the same options. None for invalid options."""
        if rules not in self._options:
            try:
                made = TableOptions.of_rules([self._rules[number] for number in rules])
                if made is not None:
                    self._check(made)
            except ConfigError as error:
                self._errors[rules], made = error, None
            self._options[rules] = next((known for known in self._options.values() if _is_same(known, made)), made)
        return self._options[rules]

    def _matching_rules(self, topic: str) -> tuple[int, ...]:
        if topic not in self._matches:
            found = (number for number, rule in enumerate(self._rules) if _matches(rule.source, topic))
            self._matches[topic] = tuple(found)
        return self._matches[topic]

    def _rule_of(self, topic: str) -> TableRule | None:
        matching = self._matching_rules(topic)
        return self._rules[matching[0]] if matching else None


@dataclass(frozen=True)
class Target:
    """Table with its events of a batch."""

    name: str
    sources: tuple[tuple[Events, Route], ...]

    @property
    def topics(self) -> list[str]:
        return list(dict.fromkeys(events.topic for events, _ in self.sources))

    def split_by_series(self) -> dict[str, Target]:
        """Return name of a series of batches → the part of the table that the series contains.

        A topic that a rule splits may fail as a whole and be applied after later batches of the table's other topics. Each such topic is a
        series, in which the numbers of batches ascend. The series of the other topics has no name.
        """
        found: dict[str, list[tuple[Events, Route]]] = {}
        for events, found_route in self.sources:
            found.setdefault(digest_offsets(events.topic) if found_route.by else "", []).append((events, found_route))
        return {series: Target(self.name, tuple(sources)) for series, sources in sorted(found.items())}

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


def _is_same(one: TableOptions | None, other: TableOptions | None) -> bool:
    return one is other or (one is not None and other is not None and vars(one) == vars(other))


def _matches(pattern: str, topic: str) -> bool:
    if is_regex(pattern):
        return re.fullmatch(pattern[1:-1], topic) is not None
    return fnmatchcase(topic, pattern)


def _find_groups(pattern: str, topic: str) -> list[str]:
    """Return the values of the groups of a regular expression, empty for a group that does not match."""
    found = re.fullmatch(pattern[1:-1], topic) if is_regex(pattern) else None
    return list(found.groups("")) if found else []


def _try_table_name(rule: TableRule | None, name: str, topic: str) -> tuple[str, DataError | None]:
    """Return the table of a topic or of one part of it; or the name itself with the error of a name that gives no table name."""
    try:
        return (
            _table_name(rule.target, name, _find_groups(rule.source, topic)) if rule else _table_name(None, name)
        ), None
    except DataError as error:
        return name, error


def _table_name(target: str | None, topic: str, groups: Sequence[str] = ()) -> str:
    parts = topic.split(".")
    fields = {
        "topic": topic,
        "prefix": parts[0],
        "db": parts[-3] if len(parts) > 2 else parts[0],
        "schema": parts[-2] if len(parts) > 1 else parts[0],
        "table": parts[-1],
    }
    try:
        return check_table_name(target.format(topic, *groups, **fields) if target else topic)
    except ValueError as error:
        raise DataError(str(error), where=f"topic {topic}", fix="name a `target:` for it under `tables:`") from None
