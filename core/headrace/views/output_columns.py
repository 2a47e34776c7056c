"""Output columns of a SELECT, with nulls in place of values that the derivation of touched keys cannot compute."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from headrace.views.scopes import Scope
from headrace.views.touch_errors import refuse, refuse_touch


@dataclass(frozen=True, slots=True)
class Columns:
    """Output columns of a query.

    ``names``: in order and lower case, None for a star, empty for an expression without a name; ``is_unknown``:
    whether the column at each position has no value; ``starred``: unknown columns that a star stands for.
    """

    items: tuple[exp.Expr, ...]
    names: tuple[str | None, ...]
    is_unknown: tuple[bool, ...]
    starred: frozenset[str] = frozenset()

    @property
    def unknown(self) -> frozenset[str]:
        """Return the names of the unknown columns, with an empty one for columns without a name."""
        return self.starred.union(name or "" for name, flag in zip(self.names, self.is_unknown, strict=True) if flag)

    def unite(self, other: Columns, query: exp.Expr) -> Columns:
        """Return the columns of a UNION: by position, with this query's names."""
        if not other.unknown:
            return self
        if None in self.names or None in other.names:
            raise refuse_touch("a column of the UNION is a result of an aggregate, and * hides its position", query)
        flags = (first or second for first, second in zip(self.is_unknown, other.is_unknown, strict=False))
        return replace(self, is_unknown=tuple(flags), names=self.names[: len(other.names)])

    def rename(self, names: Sequence[exp.Identifier], source: exp.Expr) -> frozenset[str]:
        """Return the unknown columns of a derived table, whose alias may name its columns."""
        if not names and "" in self.unknown:
            raise refuse("a column of a derived table has no name", source, "add `AS <name>` to each expression")
        if not names or not self.unknown:
            return self.unknown
        if None in self.names:
            raise refuse_touch("names of columns in an alias do not show which column of * is computed", source)
        pairs = zip(names, self.is_unknown, strict=False)
        return frozenset(name.name.lower() for name, is_unknown in pairs if is_unknown)


def relax_columns(select: exp.Select, scope: Scope, keep: frozenset[str] | None) -> Columns:
    """Return the columns of a SELECT; ``keep``: the columns that are needed, None for all. Others are nulls, too."""
    items: list[exp.Expr] = []
    names: list[str | None] = []
    flags: list[bool] = []
    starred: frozenset[str] = frozenset()
    # An item may be read by its alias in a later item.
    read = {column.name.lower() for item in select.expressions for column in item.find_all(exp.Column)}
    for item in select.expressions:
        if item.is_star:
            starred = starred.union(*_find_starred(item, scope))
        own: list[str | None] = [None] if item.is_star else list(list_names(item))
        unknown = starred.union(name or "" for name, flag in zip(names, flags, strict=True) if flag)
        is_unknown = not item.is_star and scope.is_unknown(item, unknown)
        is_needed = item.is_star or keep is None or not (keep | read).isdisjoint(own)
        if is_unknown or not is_needed:
            items += [exp.alias_(exp.null(), name, quoted=True) if name else exp.null() for name in own]
        else:
            items.append(item.copy())
        names += own
        flags += [is_unknown] * len(own)
    return Columns(tuple(items), tuple(names), tuple(flags), starred)


def list_names(item: exp.Expr) -> list[str]:
    """Return the names of an item of a SELECT list in lower case: several for a generator, empty without a name."""
    if isinstance(item, exp.Aliases):
        return [name.name.lower() for name in item.expressions]
    if isinstance(item, exp.Alias):
        return [item.alias.lower()]
    if isinstance(item, exp.Column):
        return [item.name.lower()]
    return [item.expression.name.lower()] if isinstance(item, exp.Dot) else [""]


def name_columns(select: exp.Select, names: Sequence[str | None]) -> exp.Select:
    """Return a SELECT with other names of its columns. ConfigError if an item stands for several columns."""
    select = select.copy()
    for item, name in zip(list(select.expressions), names, strict=False):
        if item.is_star or isinstance(item, exp.Aliases):
            raise refuse_touch("in a UNION, an item stands for several columns", item, "name each column")
        if name:
            item.replace(exp.alias_(item.unalias().copy(), name, quoted=True))
    return select


def _find_starred(item: exp.Expr, scope: Scope) -> list[frozenset[str]]:
    """Return the unknown columns that a star stands for."""
    if isinstance(item, exp.Column) and item.table:
        return [scope.unknown.get(item.table.lower(), frozenset())]
    return list(scope.unknown.values())
