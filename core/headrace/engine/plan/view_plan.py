"""Views of a pipeline: their queries, in the order in which they are computed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from graphlib import CycleError, TopologicalSorter
from string import Formatter
from typing import TYPE_CHECKING

from headrace.config.model import TableRule, is_regex
from headrace.config.view_rule import ViewRule
from headrace.config_errors import PlacedError
from headrace.engine.plan.table_options import TableOptions
from headrace.errors import ConfigError
from headrace.sdk.transform import TransformConfig
from headrace.spark.columns import fold_name
from headrace.suggestions import did_you_mean

if TYPE_CHECKING:
    from headrace.sdk.sink import Sink
    from headrace.sdk.transform import Transform
    from headrace.views.view_query import ViewQuery

#: Characters of names that stand for several tables.
_PATTERN = frozenset("{*?[")


@dataclass(frozen=True)
class View:
    """View of the pipeline file."""

    name: str
    key: tuple[str, ...]
    sql: str
    query: ViewQuery
    #: Name of the sink from which its tables are read.
    base_sink: str
    #: Whether the whole view is computed each time.
    is_full: bool = False
    #: Table → expressions for the keys that a row touches.
    touched_by: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    options: TableOptions | None = None

    def digest(self, *more: str) -> str:
        """Return a digest of what determines the rows of the view, and of further texts."""
        parts = [self.sql, list(self.key), self.base_sink, dict(self.touched_by), *more]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]


def list_readers(views: Sequence[View], table: str) -> list[View]:
    """Return the views that read a table."""
    return [view for view in views if table in view.query.tables]


def plan_views(
    rules: Sequence[ViewRule], tables: Sequence[TableRule], sink_names: Mapping[Sink, str]
) -> tuple[View, ...]:
    """Return the views in the order of their dependence. PlacedError for a view that cannot be kept.

    ``tables``: the rules of the pipeline.
    """
    made: dict[str, tuple[int, View]] = {}
    for number, rule in enumerate(rules):
        view = _plan_view(number, rule, sink_names)
        _check_name(number, view.name, tables, made)
        made[view.name] = number, view
    for number, view in made.values():
        _check_tables(number, view, tables, made)
    return _sort(made)


def check_selections(views: Sequence[View], transforms: Sequence[Transform], tags: Mapping[str, Sequence[str]]) -> None:
    """Raise PlacedError for a transform or a tag that names a view: its columns come from tables that are transformed already."""
    names = {view.name for view in views}
    fix = "name the tables that the view reads"
    for number, transform in enumerate(transforms):
        config = transform.config
        if not isinstance(config, TransformConfig):
            continue
        for key, globs in (("tables", config.only_tables), ("tables.exclude", config.excluded_tables)):
            if found := names.intersection(globs):
                raise PlacedError(
                    f"{min(found)!r} is a view, and transforms apply to tables",
                    loc=("transforms", number, transform.name, key),
                    fix=fix,
                )
    for tag, patterns in tags.items():
        if found := {name for name in names if any(pattern.startswith(f"{name}.") for pattern in patterns)}:
            raise PlacedError(
                f"{min(found)!r} is a view, and tags belong to columns of tables", loc=("tags", tag), fix=fix
            )


def _plan_view(number: int, rule: ViewRule, sink_names: Mapping[Sink, str]) -> View:
    from headrace.views.view_query import ViewQuery

    try:
        query = ViewQuery.parse(rule.sql, rule.key, rule.touched_by, is_full=rule.recompute == "full")
    except ConfigError as error:
        key = "touched_by" if error.where == "touched_by" else "sql"
        raise PlacedError(error.what, loc=("views", number, key), fix=error.fix) from error
    if unused := [name for name in rule.sink if rule.sinks is not None and name not in rule.sinks]:
        raise PlacedError(
            f"`sinks:` of the view leaves out the sink {unused[0]!r}, which has options",
            loc=("views", number, "sink", unused[0]),
            fix="name the sink in `sinks:`, or remove its options",
        )
    return View(
        name=rule.name,
        key=rule.key,
        sql=rule.sql,
        query=query,
        base_sink=_find_base_sink(number, rule.from_, sink_names),
        is_full=rule.recompute == "full",
        touched_by=rule.touched_by,
        options=TableOptions.of_view(rule),
    )


def _check_name(number: int, name: str, tables: Sequence[TableRule], views: Collection[str]) -> None:
    """Raise PlacedError for the name of another view or table, also in other case: Hive stores all names in lower case."""
    folded = fold_name(name)
    if other := next((view for view in views if fold_name(view) == folded), None):
        what = f"two views have the name {name!r}"
        if other != name:
            what = f"the names {other!r} and {name!r} of views differ in upper and lower case only"
        raise PlacedError(what, loc=("views", number, "name"), fix="give each view its own name")
    if other := next((table.target for table in tables if table.target and fold_name(table.target) == folded), None):
        raise PlacedError(
            f"a rule of `tables:` writes a table of the name {other!r}",
            loc=("views", number, "name"),
            fix="give the view its own name",
        )


def _find_base_sink(number: int, named: str | None, sink_names: Mapping[Sink, str]) -> str:
    """Return the sink that `from:` names, or the only one that stores tables. PlacedError without such a sink."""
    if named is not None:
        if any(name == named and not sink.capabilities.readable for sink, name in sink_names.items()):
            raise PlacedError(
                f"the sink {named!r} does not return the rows of its tables",
                loc=("views", number, "from"),
                fix="name a sink that keeps tables",
            )
        return named
    # A sink that repeats a batch without a change has stored it.
    names = [name for sink, name in sink_names.items() if sink.capabilities.upsert and sink.capabilities.exactly_once]
    if len(names) == 1:
        return names[0]
    what = "several sinks keep tables" if names else "no sink keeps tables"
    fix = f"name one of them: `from: {names[0]}`" if names else "add a sink that keeps tables"
    raise PlacedError(f"{what}, and a view reads those of one sink", loc=("views", number), fix=fix)


def _check_tables(number: int, view: View, rules: Sequence[TableRule], views: Collection[str]) -> None:
    """Raise PlacedError for a table that neither a rule nor another view writes, or not in the sink that the view reads."""
    for table in view.query.tables:
        if table not in views and rules and not any(_may_write(rule, table) for rule in rules):
            names = [rule.target or rule.source for rule in rules if not rule.route_by_field]
            known = [*views, *(name for name in names if not is_regex(name) and _PATTERN.isdisjoint(name))]
            raise PlacedError(
                f"no rule of `tables:` and no view writes the table {table!r}",
                loc=("views", number, "sql"),
                fix=did_you_mean(table, [name for name in known if name != view.name]),
            )
        if any(rule.target == table and rule.sinks and view.base_sink not in rule.sinks for rule in rules):
            raise PlacedError(
                f"the sink {view.base_sink!r} does not receive {table}",
                loc=("views", number),
                fix=f"add the sink to `sinks:` of {table}, or name another sink in `from:`",
            )


def _may_write(rule: TableRule, table: str) -> bool:
    """Return whether a rule may give a table this name. Fields of its target stand for any text."""
    if rule.target is not None:
        pieces = Formatter().parse(rule.target)
        return fnmatchcase(table, "".join(text + ("*" if name is not None else "") for text, name, _, _ in pieces))
    return bool(rule.route_by_field) or is_regex(rule.source) or fnmatchcase(table, rule.source)


def _sort(views: Mapping[str, tuple[int, View]]) -> tuple[View, ...]:
    """Return the views so that each follows the views that it reads. PlacedError for a cycle."""
    graph = {name: [table for table in view.query.tables if table in views] for name, (_, view) in views.items()}
    try:
        order = list(TopologicalSorter(graph).static_order())
    except CycleError as error:
        names: list[str] = error.args[1]
        raise PlacedError(
            f"the views read each other in a circle: {' → '.join(reversed(names))}",
            loc=("views", views[names[0]][0], "sql"),
            fix="let one of them read tables only",
        ) from None
    return tuple(views[name][1] for name in order)
