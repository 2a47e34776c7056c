"""Uses of tables whose rows can be restricted to the touched keys before the joins of a view.

Spark restricts the rows of a view to the touched keys by a semi-join over the SQL of the view, and moves it to the table that the key comes
from. A table that is joined to the key by equality would still be read into the join, and sorted, whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import permutations

from sqlglot import exp

from headrace.views.common_tables import find_common_table
from headrace.views.scopes import list_sources, split_conjuncts
from headrace.views.view_text import find_start, read_name

#: Parts of a table in FROM that change neither its rows nor the names of its columns.
_PLAIN_PARTS = {"this", "db", "catalog", "alias"}


#: Start of a use of a table in the text, its table in lower case, and pairs of a column and the key column that it equals.
KeyFilter = tuple[int, str, list[tuple[str, str]]]


def find_key_filters(tree: exp.Query, key: Sequence[str]) -> list[KeyFilter]:
    """Return the uses of tables with columns that equal key columns in each row of the view.

    Rows of such a use without a touched key only make rows of the view without a touched key. There is no use in a query whose
    joins or window functions do not allow the restriction, and in one with a single use: Spark restricts this one.
    """
    sources = dict(list_sources(tree)) if isinstance(tree, exp.Select) else {}
    if not isinstance(tree, exp.Select) or not _is_restrictable(tree) or len(sources) < len(list_sources(tree)):
        return []
    found: dict[str, list[tuple[str, str]]] = {}
    for name in key:
        owner = _find_key_column(tree, name, sources)
        if owner is None or owner[0] in _list_padded(tree):
            continue
        for alias, column in dict.fromkeys([owner, *_list_equal_columns(tree, owner, sources)]):
            found.setdefault(alias, []).append((column, name))
    if len(found) == 1:
        return []
    return [
        (find_start(source), read_name(source).lower(), found[alias])
        for alias, source in sources.items()
        if alias in found and isinstance(source, exp.Table) and _is_plain_table(source)
    ]


def _is_restrictable(select: exp.Select) -> bool:
    """Return whether a row of FROM has no part in rows of the SELECT with another key."""
    group = select.args.get("group")
    if group is not None and any(value for name, value in group.args.items() if name != "expressions"):
        return False
    nodes = select.find_all(exp.Window, exp.Pivot, exp.Cube, exp.Rollup, exp.GroupingSets)
    return not any(node.find_ancestor(exp.Select) is select for node in nodes) and all(map(_keeps_left, _joins(select)))


def _keeps_left(join: exp.Join) -> bool:
    """Return whether a join is an inner or a left one."""
    is_known = (join.kind or "").upper() in ("", "INNER", "OUTER", "CROSS") and not join.method
    return is_known and (join.side or "").upper() in ("", "LEFT")


def _joins(select: exp.Select) -> list[exp.Join]:
    return select.args.get("joins") or []


def _list_padded(select: exp.Select) -> set[str]:
    """Return the aliases of sources whose columns are null in a row without a partner."""
    aliases = [alias for alias, _ in list_sources(select)][1:]
    return {alias for alias, join in zip(aliases, _joins(select), strict=True) if join.side}


def _find_key_column(select: exp.Select, name: str, sources: dict[str, exp.Expr]) -> tuple[str, str] | None:
    """Return the source and the column that a key column is taken from; None for another expression."""
    items = [item for item in select.expressions if item.alias_or_name.lower() == name.lower()]
    return _resolve(items[0].unalias(), sources) if len(items) == 1 else None


def _list_equal_columns(
    select: exp.Select, owner: tuple[str, str], sources: dict[str, exp.Expr]
) -> Iterator[tuple[str, str]]:
    """Yield the sources and columns that a condition compares with a column."""
    where = select.args.get("where")
    for condition in split_conjuncts(where and where.this):
        yield from _list_partners(condition, owner, sources)
    for alias, join in zip(list(sources)[1:], _joins(select), strict=True):
        for condition in split_conjuncts(join.args.get("on")):
            for found in _list_partners(condition, owner, sources):
                # A row of the left side stays if ON is false.
                if not join.side or found[0] == alias:
                    yield found


def _list_partners(
    condition: exp.Expr, owner: tuple[str, str], sources: dict[str, exp.Expr]
) -> Iterator[tuple[str, str]]:
    if isinstance(condition, (exp.EQ, exp.NullSafeEQ)):
        for side, other in permutations((condition.this.unnest(), condition.expression.unnest())):
            found = _resolve(other, sources)
            if found is not None and _resolve(side, sources) == owner:
                yield found


def _resolve(node: exp.Expr, sources: dict[str, exp.Expr]) -> tuple[str, str] | None:
    """Return the source and the name of a column that is written with its source; None for other expressions."""
    if not isinstance(node, exp.Column) or node.is_star or len(node.parts) < 2:
        return None
    *qualifier, column = (part.name for part in node.parts)
    if len(qualifier) == 1:
        return (qualifier[0].lower(), column) if qualifier[0].lower() in sources else None
    if qualifier[0].lower() in sources:  # A field of a struct.
        return None
    written = ".".join(qualifier).lower()
    for alias, source in sources.items():
        if isinstance(source, exp.Table) and not source.alias and read_name(source).lower() == written:
            return alias, column
    return None


def _is_plain_table(source: exp.Table) -> bool:
    """Return whether a source is a table of the pipeline, read as it is."""
    alias = source.args.get("alias")
    is_named = all(isinstance(part, exp.Identifier) for part in source.parts) and not (alias and alias.columns)
    has_more = any(value for name, value in source.args.items() if name not in _PLAIN_PARTS)
    return is_named and not has_more and find_common_table(source) is None
