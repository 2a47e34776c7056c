"""Sources of a SELECT, and columns whose value the derivation of touched keys cannot compute."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from sqlglot import exp

from headrace.views.sql_functions import has_aggregate


@dataclass(frozen=True, slots=True)
class Scope:
    """Sources that the expressions of a SELECT refer to.

    ``unknown``: alias of a source in lower case → its columns that are results of aggregates, window functions or
    subqueries. Their old and new values are in no relation, so that a condition over them counts as true.
    """

    unknown: Mapping[str, frozenset[str]]
    outer: Scope | None = None

    def has_source(self, alias: str) -> bool:
        return alias.lower() in self.unknown

    def is_unknown_column(self, column: exp.Column) -> bool:
        """Return whether a column's value is unknown; an unqualified column belongs to any source."""
        qualifier, name = column.parts[0].name.lower(), column.parts[-1].name.lower()
        if len(column.parts) > 1 and qualifier in self.unknown:
            return column.parts[1].name.lower() in self.unknown[qualifier]
        if self.outer and len(column.parts) > 1 and self.outer.is_unknown_column(column):
            return True
        first = qualifier if len(column.parts) > 1 else name
        return any(first in names for names in self.unknown.values())

    def is_unknown(self, node: exp.Expr, aliases: frozenset[str] = frozenset()) -> bool:
        """Return whether the value of an expression is unknown; ``aliases``: unknown columns of the same SELECT list."""
        if has_aggregate(node) or node.find(exp.Window, exp.Query):
            return True
        return any(
            self.is_unknown_column(column) or (len(column.parts) == 1 and column.name.lower() in aliases)
            for column in node.find_all(exp.Column)
        )


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
    """Return copies of the conjuncts whose value is known: all rows of the condition, and maybe more."""
    return [part.copy() for part in split_conjuncts(condition) if not scope.is_unknown(part)]


def find_own_queries(select: exp.Select) -> list[exp.Expr]:
    """Return EXISTS, IN and scalar subqueries in the expressions of a SELECT, without those inside another one."""
    sources = [select.args.get("from_"), *(join.this for join in select.args.get("joins") or ())]
    skipped = [source for source in sources if source is not None]
    nodes = select.walk(prune=lambda node: any(node is source for source in skipped) or _is_query_value(node))
    return [node for node in nodes if _is_query_value(node)]


def _is_query_value(node: exp.Expr) -> bool:
    if isinstance(node, exp.In):
        return node.args.get("query") is not None
    if isinstance(node, exp.Subquery):
        return not isinstance(node.parent, exp.In | exp.From | exp.Join | exp.SetOperation)
    return isinstance(node, exp.Exists)
