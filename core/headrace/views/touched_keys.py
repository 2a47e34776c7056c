"""Keys of a view that a changed row of a table can touch.

For one use of the changed table, the query reads the changed rows (old and new), and for each other use of a table the rows
that were or are in it. Rows of the query that differ before and after the change then appear in the result: without
aggregates, HAVING, ORDER BY, and conditions over unknown values, which only remove rows or combine them. The result may contain
more keys, never fewer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sqlglot import exp

from headrace.errors import ConfigError
from headrace.views.join_alternatives import Alternative, JoinedSource, list_alternatives
from headrace.views.scopes import Scope, weaken
from headrace.views.view_dialect import describe_node

#: Fix of each refusal.
_FIX = "give `touched_by: {<table>: <expressions of the view's key>}` for the table, or set `recompute: full`"


@dataclass(frozen=True, slots=True)
class Relaxed:
    """SELECTs that together contain each output row that a query had or has.

    ``names``: output columns in order, None for a star or a column without a name; ``unknown``: columns with nulls
    in place of their values.
    """

    selects: tuple[exp.Select, ...]
    names: tuple[str | None, ...]
    unknown: frozenset[str]

    def combine(self) -> exp.Query:
        """Return one query with the rows of all SELECTs."""
        first, *others = self.selects
        query: exp.Query = first
        for other in others:
            query = exp.Union(this=query, expression=other, distinct=False)
        return query


class QueryRelaxation:
    """Rewriting of a query for one use of a changed table; None: for rows of all tables.

    ``read_table`` returns the relation of a use of a table.
    """

    def __init__(self, use: int | None, read_table: Callable[[exp.Table], exp.Expr]) -> None:
        self._use, self._read_table = use, read_table

    def relax(self, query: exp.Expr, outer: Scope | None = None, keep: frozenset[str] | None = None) -> Relaxed:
        """Return the SELECTs of a query; ``keep``: the output columns that are needed, None for all."""
        query = query.unnest() if isinstance(query, exp.Subquery) else query
        if isinstance(query, exp.SetOperation):
            return self._relax_set(query, outer, keep)
        assert isinstance(query, exp.Select)
        bodies, scope = self._relax_body(query, outer)
        items, names, unknown = _relax_columns(query, scope, keep)
        selects = []
        for body in bodies:
            select = body.build_select()
            select.set("expressions", [item.copy() for item in items])
            for clause in ("laterals", "group"):
                part = query.args.get(clause)
                select.set(clause, [item.copy() for item in part] if isinstance(part, list) else part and part.copy())
            selects.append(select)
        return Relaxed(tuple(selects), names, unknown)

    def _relax_set(self, query: exp.SetOperation, outer: Scope | None, keep: frozenset[str] | None) -> Relaxed:
        """Return the rows of both sides: a row of UNION, EXCEPT or INTERSECT changes only if one of its sides changes."""
        left, right = self.relax(query.this, outer), self.relax(query.expression, outer)
        if right.unknown and (None in left.names or None in right.names):
            raise _refuse("a column of a UNION is a result of an aggregate or a window function", query)
        unknown = left.unknown | {
            name or "" for name, other in zip(left.names, right.names, strict=False) if other in right.unknown
        }
        sides = [side for side, part in ((left, query.this), (right, query.expression)) if self._is_changed(part)]
        selects = tuple(select for side in sides or [left, right] for select in side.selects)
        if selects and selects[0] not in left.selects:
            selects = _name_columns(selects, left.names)
        return Relaxed(selects, left.names, frozenset(unknown))

    def _relax_body(self, select: exp.Select, outer: Scope | None) -> tuple[list[Alternative], Scope]:
        """Return FROM and WHERE of a SELECT, and its sources."""
        joins = select.args.get("joins") or []
        nodes = [select.args["from_"].this, *(join.this for join in joins)]
        unknown: dict[str, frozenset[str]] = {}
        sources = []
        for position, (node, join) in enumerate(zip(nodes, [None, *joins], strict=True)):
            relation, hidden = self._relax_source(node, outer)
            unknown[node.alias_or_name.lower() or str(position)] = hidden
            sources.append(JoinedSource(relation, self._is_changed(node), join))
        scope = Scope(unknown, outer)
        where = select.args.get("where")
        conditions = tuple(weaken(where and where.this, scope))
        bodies = [
            Alternative(body.joins, (*body.conditions, *conditions)) for body in list_alternatives(sources, scope)
        ]
        return bodies, scope

    def _relax_source(self, node: exp.Expr, outer: Scope | None) -> tuple[exp.Expr, frozenset[str]]:
        """Return the relation of a source, and its unknown columns."""
        if isinstance(node, exp.Table) and "use" in node.meta:
            return self._read_table(node), frozenset()
        if not isinstance(node, exp.Subquery):
            return node.copy(), frozenset()
        relaxed = self.relax(node.this, outer)
        alias = node.args.get("alias")
        unknown = relaxed.unknown
        if alias is not None and alias.columns:
            renamed = dict(zip(relaxed.names, (column.name for column in alias.columns), strict=False))
            unknown = frozenset(str(renamed[name]).lower() for name in unknown)
        return exp.Subquery(this=relaxed.combine(), alias=alias and alias.copy()), unknown

    def _is_changed(self, node: exp.Expr) -> bool:
        """Return whether a part of the query contains the use of the changed table."""
        return self._use is not None and any(table.meta.get("use") == self._use for table in node.find_all(exp.Table))


def _relax_columns(
    select: exp.Select, scope: Scope, keep: frozenset[str] | None
) -> tuple[list[exp.Expr], tuple[str | None, ...], frozenset[str]]:
    """Return the output columns with nulls for unknown ones, their names, and the names of unknown ones."""
    items: list[exp.Expr] = []
    names: list[str | None] = []
    unknown: frozenset[str] = frozenset()
    for item in select.expressions:
        name = item.output_name.lower() or None
        star = item.find(exp.Star) if isinstance(item, exp.Star | exp.Column) else None
        if star is not None:
            qualifier = item.table.lower() if isinstance(item, exp.Column) else ""
            hidden = scope.unknown.values() if not qualifier else [scope.unknown.get(qualifier, frozenset())]
            unknown = unknown.union(*hidden)
            items.append(item.copy())
            names.append(None)
            continue
        is_unknown = scope.is_unknown(item, unknown)
        if is_unknown and name:
            unknown |= {name}
        if is_unknown or (keep is not None and name not in keep):
            items.append(exp.alias_(exp.null(), item.output_name, quoted=True) if name else exp.null())
        else:
            items.append(item.copy())
        names.append(name)
    return items, tuple(names), unknown


def _name_columns(selects: Sequence[exp.Select], names: Sequence[str | None]) -> tuple[exp.Select, ...]:
    """Return SELECTs whose first one has the given names of columns."""
    first = selects[0].copy()
    for item, name in zip(list(first.expressions), names, strict=False):
        if name and not item.is_star:
            item.replace(exp.alias_(item.unalias().copy(), name, quoted=True))
    return (first, *selects[1:])


def _refuse(what: str, node: exp.Expr) -> ConfigError:
    return ConfigError(f"{what}, so that headrace cannot derive the touched keys", where=describe_node(node), fix=_FIX)
