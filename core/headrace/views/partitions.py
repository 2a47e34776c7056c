"""Window functions: a changed row changes the results of all rows of its partition."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from headrace.views.join_alternatives import Alternative
from headrace.views.output_columns import list_names
from headrace.views.scopes import Scope
from headrace.views.touch_errors import refuse_touch
from headrace.views.view_dialect import print_sql

#: Alias of the changed rows' partitions, and prefix of their columns.
_ALIAS = "headrace_partition"


def find_partitions(select: exp.Select, scope: Scope) -> list[list[exp.Expr]]:
    """Return the expressions of each PARTITION BY of a SELECT, each list once."""
    found: dict[str, list[exp.Expr]] = {}
    for item in select.expressions:
        for window in item.find_all(exp.Window):
            if window.find_ancestor(exp.Select) is not select:
                continue
            partition = window.args.get("partition_by") or _find_named(window, select)
            if not partition:
                raise refuse_touch("a window function without PARTITION BY reads all rows", window)
            if any(scope.is_unknown(part) for part in partition):
                raise refuse_touch("PARTITION BY uses a result of an aggregate or of another window function", window)
            _check_names(partition, item, select)
            found[", ".join(print_sql(part) for part in partition)] = partition
    return list(found.values())


def require_partition(
    partitions: Sequence[Sequence[exp.Expr]], changed: Sequence[Alternative], laterals: Sequence[exp.Expr]
) -> exp.Expr:
    """Return the condition for rows that share a partition with a changed row."""
    return exp.or_(*(_require_same(parts, alternative, laterals) for parts in partitions for alternative in changed))


def _require_same(parts: Sequence[exp.Expr], changed: Alternative, laterals: Sequence[exp.Expr]) -> exp.Expr:
    names = [f"headrace_part_{number}" for number in range(len(parts))]
    rows = changed.build_select()
    rows.set("expressions", [exp.alias_(part.copy(), name) for part, name in zip(parts, names, strict=True)])
    rows.set("laterals", [lateral.copy() for lateral in laterals])
    same = (
        exp.NullSafeEQ(this=exp.column(name, table=_ALIAS), expression=exp.Paren(this=part.copy()))
        for part, name in zip(parts, names, strict=True)
    )
    return exp.Exists(this=exp.select("1").from_(rows.subquery(_ALIAS)).where(*same))


def _check_names(partition: Sequence[exp.Expr], item: exp.Expr, select: exp.Select) -> None:
    """Raise ConfigError for a name that may be a column or the alias of an item before: Spark prefers the column.

    If the expression of the alias reads a column of its name, there is such a column.
    """
    aliases = {name: other for other in select.expressions[: item.index] for name in list_names(other)}
    for column in (column for part in partition for column in part.find_all(exp.Column)):
        name = column.name.lower()
        alias = aliases.get(name) if len(column.parts) == 1 else None
        if alias is not None and all(read.name.lower() != name for read in alias.find_all(exp.Column)):
            fix = "write its expression, or the table before the name if it is a column"
            raise refuse_touch("PARTITION BY reads the alias of another column of the result", column, fix)


def _find_named(window: exp.Window, select: exp.Select) -> list[exp.Expr]:
    """Return PARTITION BY of the named window that OVER refers to."""
    for named in select.args.get("windows") or ():
        if named.name.lower() == window.alias.lower():
            return list(named.args.get("partition_by") or ())
    return []
