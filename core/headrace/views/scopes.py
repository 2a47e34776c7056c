"""Sources of a SELECT, and columns whose value the derivation of touched keys cannot compute."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from sqlglot import exp

from headrace.views.sql_functions import has_aggregate


@dataclass(frozen=True, slots=True)
class Scope:
    """Sources that the expressions of a SELECT refer to.

    ``unknown``: alias of a source in lower case → its columns that are results of aggregates, window functions or
    subqueries. Neither their old nor their new values are at hand, so that a condition over them counts as true.
    ``relations``: alias → relation that the source reads.
    """

    unknown: Mapping[str, frozenset[str]]
    outer: Scope | None = None
    relations: Mapping[str, exp.Expr] = field(default_factory=dict)

    def has_outer_source(self, alias: str) -> bool:
        """Return whether an alias is that of a source of a query around this one."""
        return self.outer is not None and (alias in self.outer.unknown or self.outer.has_outer_source(alias))

    def is_unknown_column(self, column: exp.Column) -> bool:
        """Return whether a column's value is unknown; an unqualified column belongs to any source."""
        parts = [part.name.lower() for part in column.parts]
        if column.is_star:
            return bool(self.unknown.get(parts[0]))
        if len(parts) > 1 and parts[0] in self.unknown:
            return parts[1] in self.unknown[parts[0]]
        if self.outer and self.outer.is_unknown_column(column):
            return True
        return any(parts[0] in names for names in self.unknown.values())

    def is_unknown(self, node: exp.Expr, aliases: Iterable[str] = ()) -> bool:
        """Return whether the value of an expression is unknown; ``aliases``: unknown columns of the same SELECT list."""
        if has_aggregate(node) or node.find(exp.Window, exp.Query):
            return True
        if any(self.unknown.values()) and any(
            not isinstance(star.parent, exp.Column) for star in node.find_all(exp.Star)
        ):
            return True
        return any(
            self.is_unknown_column(column) or (len(column.parts) == 1 and column.name.lower() in aliases)
            for column in node.find_all(exp.Column)
        )

    def reads_source(self, alias: str, nodes: Iterable[exp.Expr]) -> bool:
        """Return whether expressions may read a source; an unqualified column may be of any source."""
        return any(_may_read(self, alias, part) for node in nodes for part in node.find_all(exp.Column, exp.Star))


def _may_read(scope: Scope, alias: str, node: exp.Expr) -> bool:
    if not isinstance(node, exp.Column):
        return not isinstance(node.parent, exp.Column)
    qualifier = node.parts[0].name.lower() if len(node.parts) > 1 else ""
    return qualifier == alias or (qualifier not in scope.unknown and not scope.has_outer_source(qualifier))


def list_sources(select: exp.Select) -> list[tuple[str, exp.Expr]]:
    """Return the sources of FROM and its joins in order, with their aliases in lower case."""
    nodes = [select.args["from_"].this] if select.args.get("from_") else []
    nodes += [join.this for join in select.args.get("joins") or ()]
    return [(node.alias_or_name.lower() or f"source {number}", node) for number, node in enumerate(nodes)]


def reads_outer_source(select: exp.Select, outer: Scope | None) -> bool:
    """Return whether a qualified column of a SELECT belongs to a source around it."""
    around = Scope({}, outer)
    return any(column.table and around.has_outer_source(column.table.lower()) for column in select.find_all(exp.Column))


def list_arms(query: exp.Expr) -> Iterator[exp.Select]:
    """Yield the SELECTs that UNION, EXCEPT and INTERSECT combine."""
    inner = query.unnest() if isinstance(query, exp.Subquery) else query
    if isinstance(inner, exp.SetOperation):
        yield from list_arms(inner.this)
        yield from list_arms(inner.expression)
    elif isinstance(inner, exp.Select):
        yield inner


def split_conjuncts(condition: exp.Expr | None) -> Iterator[exp.Expr]:
    """Yield the parts of a condition that AND joins."""
    if condition is None:
        return
    inner = condition.unnest()
    if isinstance(inner, exp.And):
        yield from split_conjuncts(inner.this)
        yield from split_conjuncts(inner.expression)
    else:
        yield inner


def weaken(condition: exp.Expr | None, scope: Scope) -> list[exp.Expr]:
    """Return copies of the conjuncts whose value is known: they keep all rows of the condition, and maybe more."""
    return [part.copy() for part in split_conjuncts(condition) if not scope.is_unknown(part)]
