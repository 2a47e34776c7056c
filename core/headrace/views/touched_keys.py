"""Rows of a view's SQL that a changed row of a table can touch.

For one use of the changed table, the query reads the changed rows (old and new), and for each other use of a table the rows
that were or are in it. Rows of the query that differ before and after the change then appear in the result: without
aggregates, HAVING, ORDER BY, and conditions over unknown values, which only remove rows or combine them. The result may contain
more rows, never fewer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from itertools import chain, compress

from sqlglot import exp

from headrace.views.join_alternatives import Alternative, JoinedSource, list_alternatives
from headrace.views.output_columns import Columns, list_names, name_columns, relax_columns
from headrace.views.partitions import find_partitions, require_partition
from headrace.views.scopes import Scope, list_arms, list_sources, reads_outer_source, weaken
from headrace.views.sql_functions import is_global_aggregate
from headrace.views.subqueries import find_own_subqueries, open_subquery, require_base_columns, require_match
from headrace.views.touch_errors import refuse_touch
from headrace.views.view_text import read_name


@dataclass(frozen=True, slots=True)
class Relaxed:
    """SELECTs that together contain each output row that a query had or has."""

    selects: tuple[exp.Select, ...]
    columns: Columns

    def combine(self) -> exp.Query:
        """Return one query with the rows of all SELECTs."""
        first, *others = self.selects
        query: exp.Query = first
        for other in others:
            query = exp.Union(this=query, expression=other, distinct=False)
        return query


@dataclass(frozen=True, slots=True)
class QueryRelaxation:
    """Rewriting of a query for one use of a changed table, or for the rows of all tables if ``use`` is None.

    ``relations``: table in lower case → relation of the rows that it had or has; ``changed``: relation of the changed rows.
    """

    use: int | None
    relations: Mapping[str, str]
    changed: str

    def relax(self, query: exp.Expr, outer: Scope | None = None, keep: frozenset[str] | None = None) -> Relaxed:
        """Return the SELECTs of a query; ``keep``: the output columns that are needed, None for all."""
        query = query.unnest() if isinstance(query, exp.Subquery) else query
        if isinstance(query, exp.SetOperation):
            return self._relax_set(query, outer)
        assert isinstance(query, exp.Select)
        if is_global_aggregate(query) and not self.is_changed(query):
            # It has one row, also if its tables have none.
            query = exp.Select(expressions=query.expressions)
        scope = self._open_scope(query, outer)
        columns = relax_columns(query, scope, keep)
        selects = []
        for body in self._relax_rows(query, scope, columns):
            select = body.build_select()
            select.set("expressions", [item.copy() for item in columns.items])
            select.set("laterals", [lateral.copy() for lateral in query.args.get("laterals") or ()])
            group = query.args.get("group")
            if group is not None and not group.find(exp.Query):
                select.set("group", group.copy())
            selects.append(select)
        return Relaxed(tuple(selects), columns)

    def _relax_set(self, query: exp.SetOperation, outer: Scope | None) -> Relaxed:
        """Return the rows of all sides: a row of UNION, EXCEPT or INTERSECT changes only if one of its sides changes."""
        first, *others = sides = [self.relax(arm, outer) for arm in list_arms(query)]
        columns = reduce(lambda united, side: united.unite(side.columns, query), others, first.columns)
        changes = [self.is_changed(arm) for arm in list_arms(query)]
        is_needed = changes if any(changes) else [True] * len(sides)
        if any(reads_outer_source(select, outer) for side in sides for select in side.selects):
            named = (side.selects if side is first else _take_names(first, side) for side in compress(sides, is_needed))
            return Relaxed(tuple(chain.from_iterable(named)), columns)
        # The sides without a change stay, without rows: Spark gives a column the common type of all sides.
        parts = [side.selects if keep else (_without_rows(side),) for side, keep in zip(sides, is_needed, strict=True)]
        union = Relaxed(tuple(chain.from_iterable(parts)), columns).combine()
        return Relaxed((_select_names(columns.names, union),), columns)

    def _open_scope(self, select: exp.Select, outer: Scope | None) -> Scope:
        """Return the sources of a SELECT, with the relations that they read."""
        relations = {}
        unknown = {}
        for alias, node in list_sources(select):
            relations[alias], unknown[alias] = self._relax_source(node, outer)
        scope = Scope(unknown, outer, relations)
        for lateral in (*scope.relations.values(), *(select.args.get("laterals") or ())):
            if isinstance(lateral, exp.Lateral) and scope.is_unknown(lateral.this):
                raise refuse_touch("a generator reads a result of an aggregate or a window function", lateral)
        return scope

    def _relax_source(self, node: exp.Expr, outer: Scope | None) -> tuple[exp.Expr, frozenset[str]]:
        """Return the relation of a source, and its unknown columns."""
        if isinstance(node, exp.Table) and "use" in node.meta:
            relation = self.changed if self.is_changed(node) else self.relations[read_name(node).lower()]
            return exp.Table(this=exp.Var(this=relation), alias=node.args["alias"].copy()), frozenset()
        if not isinstance(node, exp.Subquery):
            return node.copy(), frozenset()
        for select in list_arms(node.this):
            if is_global_aggregate(select) and self.is_changed(select):
                raise refuse_touch("an aggregate without GROUP BY reads all rows", select)
        relaxed = self.relax(node.this, outer)
        alias = node.args.get("alias")
        unknown = relaxed.columns.rename(alias.columns if alias else [], node)
        return exp.Subquery(this=relaxed.combine(), alias=alias and alias.copy()), unknown

    def _relax_rows(self, select: exp.Select, scope: Scope, columns: Columns) -> list[Alternative]:
        """Return the rows before GROUP BY that a change touches; all rows if the SELECT contains no changed use."""
        partitions = find_partitions(select, scope) if self.is_changed(select) else []
        items = [*columns.items, *(part for parts in partitions for part in parts)]
        rows = self._relax_body(select, scope, items)
        if not partitions:
            return rows
        everything = QueryRelaxation(None, self.relations, self.changed)
        whole = everything._open_scope(select, scope.outer)
        all_rows = everything._relax_body(select, whole, items)
        laterals = select.args.get("laterals") or []
        return [body.require(require_partition(partitions, rows, laterals)) for body in all_rows]

    def _relax_body(self, select: exp.Select, scope: Scope, items: list[exp.Expr]) -> list[Alternative]:
        """Return FROM and WHERE of a SELECT; ``items``: the expressions that read its rows."""
        where = select.args.get("where")
        conditions = weaken(where and where.this, scope)
        for node in find_own_subqueries(select):
            if self.is_changed(node):
                require_base_columns(node, select)
                inner = self.relax(open_subquery(node), scope)
                conditions.append(require_match(node, inner.selects, inner.columns, select, scope))
        readers = [*items, *conditions, *(select.args.get("laterals") or ()), *_list_group_columns(select)]
        sources: list[JoinedSource] = []
        # From the last source: an ON reads earlier sources, unless its own join is left out.
        for (alias, node), join in reversed(list(zip(list_sources(select), _list_joins(select), strict=True))):
            source = JoinedSource(
                scope.relations[alias], self.is_changed(node), scope.reads_source(alias, readers), join
            )
            sources.insert(0, source)
            if join is not None and not source.is_left_out:
                readers += _list_conditions(join)
        return [body.require(*conditions) for body in list_alternatives(sources, scope)]

    def is_changed(self, node: exp.Expr) -> bool:
        """Return whether a part of the query contains the use of the changed table."""
        return self.use is not None and any(table.meta.get("use") == self.use for table in node.find_all(exp.Table))


def _take_names(first: Relaxed, side: Relaxed) -> tuple[exp.Select, ...]:
    """Return the SELECTs of a side of a UNION with the names of the first side, by position."""
    names = first.columns.names
    if None not in names and names == side.columns.names:
        return side.selects
    return tuple(name_columns(select, names) for select in side.selects)


def _select_names(names: tuple[str | None, ...], union: exp.Query) -> exp.Select:
    """Return a SELECT of the columns of a UNION: by name, where each has one of its own."""
    is_named = all(names) and len(set(names)) == len(names)
    items = [exp.column(str(name), quoted=True) for name in names] if is_named else ["*"]
    return exp.select(*items).from_(union.subquery("headrace_union"))


def _without_rows(side: Relaxed) -> exp.Select:
    """Return a SELECT with the columns of a side, and no rows."""
    return side.selects[0].copy().where(exp.false())


def _list_joins(select: exp.Select) -> list[exp.Join | None]:
    """Return the join of each source; None for the first one."""
    return [None, *(select.args.get("joins") or ())] if select.args.get("from_") else []


def _list_group_columns(select: exp.Select) -> list[exp.Expr]:
    """Return the expressions of GROUP BY that are not output columns."""
    names = {name for item in select.expressions for name in list_names(item)}
    group = select.args.get("group")
    return [
        part
        for part in (group.expressions if group else ())
        if not isinstance(part, exp.Column) or part.table or part.name.lower() not in names
    ]


def _list_conditions(join: exp.Join) -> list[exp.Expr]:
    """Return what a join compares: its ON, and the columns of USING."""
    on = [join.args["on"]] if join.args.get("on") else []
    return [*on, *(exp.column(name.copy()) for name in join.args.get("using") or ())]
