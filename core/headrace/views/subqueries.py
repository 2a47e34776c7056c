"""EXISTS, IN and scalar subqueries: a changed row inside changes the rows outside that it matches.

A new or old row of the subquery can make a condition true or false, also under NOT. The condition itself therefore counts
as true, and the rows outside are those that match a changed row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlglot import exp

from headrace.views.output_columns import Columns, list_names
from headrace.views.scopes import Scope, list_sources, split_conjuncts
from headrace.views.touch_errors import refuse_touch


def find_own_subqueries(select: exp.Select) -> list[exp.Expr]:
    """Return EXISTS, IN and scalar subqueries in the expressions of a SELECT, without those inside another one."""
    sources = {id(node) for _, node in list_sources(select)}
    nodes = select.walk(prune=lambda node: id(node) in sources or _is_subquery_value(node))
    return [node for node in nodes if _is_subquery_value(node)]


def require_base_columns(node: exp.Expr, select: exp.Select) -> None:
    """Raise ConfigError for a subquery in HAVING that reads an output column: before GROUP BY, the name is another column's, or none."""
    having = select.args.get("having")
    if having is None or not any(part is node for part in having.walk()):
        return
    outputs = {
        name
        for item in select.expressions
        for name in list_names(item)
        if not (isinstance(item.unalias(), exp.Column) and item.unalias().name.lower() == name)
    }
    for column in node.find_all(exp.Column):
        if not column.table and column.name.lower() in outputs:
            raise refuse_touch(
                "a subquery in HAVING reads a column of the result",
                column,
                "write its expression, or qualify the column if it is one of a table",
            )


def open_subquery(node: exp.Expr) -> exp.Expr:
    """Return the query of EXISTS, IN or a scalar subquery."""
    query: exp.Expr = node.args["query"] if isinstance(node, exp.In) else node.this
    return query


def require_match(
    node: exp.Expr, selects: Sequence[exp.Select], columns: Columns, select: exp.Select, scope: Scope
) -> exp.Expr:
    """Return the condition for rows of ``select`` that match a changed row inside of its subquery ``node``.

    ``selects``, ``columns``: the rows of the subquery that changed; ``scope``: the sources of ``select``.
    """
    is_comparable = isinstance(node, exp.In) and not scope.is_unknown(node.this)
    if not is_comparable or columns.unknown:
        if not all(_is_correlated(part, scope) for part in selects):
            raise refuse_touch(
                "no column of the subquery is equal to a column outside of it",
                node,
                "compare them by `=` in the WHERE of the subquery and qualify the column outside",
            )
        return _exist(selects)
    matches = exp.In(this=node.this.copy(), query=_combine(selects).subquery())
    where = select.args.get("where")
    if where and any(part is node for part in split_conjuncts(where.this)):
        return matches
    # Under NOT, null makes a difference: a null inside concerns all rows outside, and any row inside one with a null outside.
    nulls_outside = [exp.Is(this=part.copy(), expression=exp.null()) for part in _list_operands(node.this)]
    nulls_inside = [_require_null(part, len(nulls_outside)) for part in selects]
    return exp.or_(matches, exp.and_(exp.or_(*nulls_outside), _exist(selects)), _exist(nulls_inside))


def _is_subquery_value(node: exp.Expr) -> bool:
    if isinstance(node, exp.In):
        return node.args.get("query") is not None
    if isinstance(node, exp.Subquery):
        return not isinstance(node.parent, exp.From | exp.Join | exp.SetOperation)
    return isinstance(node, exp.Exists) and isinstance(node.this, exp.Query)


def _list_operands(node: exp.Expr) -> list[exp.Expr]:
    inner = node.unnest()
    return list(inner.expressions) if isinstance(inner, exp.Tuple) else [inner]


def _combine(selects: Sequence[exp.Select]) -> exp.Query:
    query: exp.Query = selects[0].copy()
    for other in selects[1:]:
        query = exp.Union(this=query, expression=other.copy(), distinct=False)
    return query


def _exist(selects: Sequence[exp.Select]) -> exp.Expr:
    """Return the condition that one of the SELECTs has a row."""
    rows = []
    for select in selects:
        row = select.copy()
        row.set("group", None)
        row.set("expressions", [exp.Literal.number(1)])
        rows.append(exp.Exists(this=row))
    return exp.or_(*rows)


def _require_null(select: exp.Select, count: int) -> exp.Select:
    """Return a SELECT of the rows with a null in one of the columns, of which there are ``count``."""
    if any(item.is_star for item in select.expressions):
        names = [f"headrace_value_{number}" for number in range(count)]
        alias = exp.TableAlias(this=exp.to_identifier("headrace_values"), columns=[exp.to_identifier(n) for n in names])
        nulls = [exp.Is(this=exp.column(name), expression=exp.null()) for name in names]
        return exp.select("*").from_(exp.Subquery(this=select.copy(), alias=alias)).where(exp.or_(*nulls))
    nulls = [exp.Is(this=item.unalias().copy(), expression=exp.null()) for item in select.expressions]
    return select.copy().where(exp.or_(*nulls))


def _is_correlated(select: exp.Select, scope: Scope) -> bool:
    """Return whether an equality of WHERE compares a column of a subquery with one outside."""
    where = select.args.get("where")
    inside = {alias for alias, _ in list_sources(select)}
    return any(
        _is_outside(outer, inside, scope) and not _is_outside(inner, inside, scope) and inner.find(exp.Column)
        for part in split_conjuncts(where and where.this)
        if isinstance(part, exp.EQ | exp.NullSafeEQ)
        for outer, inner in _list_orders(part)
    )


def _list_orders(comparison: exp.Expr) -> Iterator[tuple[exp.Expr, exp.Expr]]:
    yield comparison.this, comparison.expression
    yield comparison.expression, comparison.this


def _is_outside(node: exp.Expr, inside: set[str], scope: Scope) -> bool:
    """Return whether all columns of an expression are those of queries around a subquery."""
    qualifiers = [column.parts[0].name.lower() if len(column.parts) > 1 else "" for column in node.find_all(exp.Column)]
    return bool(qualifiers) and all(
        name and name not in inside and (name in scope.unknown or scope.has_outer_source(name)) for name in qualifiers
    )
