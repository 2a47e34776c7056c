"""SQL that headrace refuses for a view."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from sqlglot import exp

from headrace.errors import ConfigError
from headrace.suggestions import did_you_mean
from headrace.views.output_columns import list_names
from headrace.views.scopes import list_arms
from headrace.views.sql_functions import find_calls, find_unstable, has_aggregate
from headrace.views.touch_errors import refuse, refuse_touch
from headrace.views.view_dialect import describe_node, find_changed_literal
from headrace.views.view_text import ViewText


def check_tables(text: ViewText) -> None:
    """Raise ConfigError if the SQL reads no table, or an older version of one."""
    if not text.tables:
        raise ConfigError("the SQL reads no table", where="sql", fix="select FROM a table that the pipeline writes")
    for table in text.tree.find_all(exp.Table):
        if table.args.get("version") or table.args.get("when"):
            raise refuse("a view reads the current rows of its tables", table, "remove AS OF")


def check_columns(tree: exp.Query, key: Sequence[str]) -> None:
    """Raise ConfigError unless the output columns have different names, among them those of the key."""
    select = next(list_arms(tree))
    names: list[str] = []
    for item in select.expressions:
        if item.is_star:
            continue
        if not all(list_names(item)):
            raise refuse("an output column of the view has no name", item, "add `AS <name>`")
        names += list_names(item)
    if repeated := [name for name, count in Counter(names).items() if count > 1]:
        raise ConfigError(
            f"two output columns have the name {repeated[0]!r}",
            where="sql",
            fix="rename one of them with `AS`; upper and lower case do not make a difference",
        )
    has_star = any(item.is_star for item in select.expressions)
    if missing := [name for name in key if name.lower() not in names and not has_star]:
        raise ConfigError(
            f"the SQL has no output column {missing[0]!r}, which `key:` names",
            where="sql",
            fix=did_you_mean(missing[0], names),
        )


def check_touched_by(touched_by: Mapping[str, Sequence[str]], tables: Sequence[str], key: Sequence[str]) -> None:
    """Raise ConfigError for expressions of a table that the SQL does not read, or of another number than the key's."""
    known = {table.lower() for table in tables}
    for table, expressions in touched_by.items():
        if table.lower() not in known:
            raise ConfigError(
                f"the SQL does not read the table {table!r}", where="touched_by", fix=did_you_mean(table, tables)
            )
        if len(expressions) != len(key):
            raise ConfigError(
                f"`touched_by:` has {len(expressions)} expressions for the table {table!r}, and the key has {len(key)}"
                " columns",
                where="touched_by",
                fix=f"write one expression for each of: {', '.join(key)}",
            )


def check_touched_by_expression(expression: exp.Expr) -> None:
    """Raise ConfigError for an expression of `touched_by:`, in parentheses, that is not one value of one row."""
    inner = expression.this
    if has_aggregate(expression) or expression.find(exp.Window, exp.Query):
        fix = "write columns of the table and functions of them"
        raise refuse("an expression of `touched_by:` is not computed from one row", inner, fix)
    if not isinstance(expression, exp.Paren) or inner.is_star or isinstance(inner, exp.Alias):
        raise not_one_expression(describe_node(expression))
    for part in find_unstable(inner):
        raise refuse(*_describe_unstable(part))


def not_one_expression(text: str) -> ConfigError:
    """Return the error for a text of `touched_by:` that is no expression, or several."""
    return ConfigError(
        f"`touched_by:` has a text that is not one expression: {text}",
        where="touched_by",
        fix="write a list with one expression for each column of the key",
    )


def check_every_run(tree: exp.Query) -> None:
    """Raise ConfigError for SQL whose rows are others in each run, or depend on all rows."""
    for node in tree.walk():
        if isinstance(node, exp.Limit | exp.Offset | exp.Fetch):
            raise refuse("the rows of a view cannot be limited", node.parent or node, _LIMIT_FIX)
        if isinstance(node, exp.TableSample):
            raise refuse("a sample has other rows in each run", node.parent or node, "remove TABLESAMPLE")
    for part in find_unstable(tree):
        raise refuse(*_describe_unstable(part))


def _describe_unstable(part: exp.Expr) -> tuple[str, exp.Expr, str]:
    """Return the error of a part with another value in each run, the part, and the fix."""
    full = "or set `recompute: full`"
    if isinstance(part, exp.Parameter | exp.Placeholder | exp.SessionParameter):
        return "a variable has other values in other runs", part, f"write its value, {full}"
    if isinstance(part, exp.Column) and not part.table:
        fix = f"if it is a column, write its table before it, as in `t.{part.name}`; otherwise use columns of the tables, {full}"
        return "the function returns other values in each run", part, fix
    if isinstance(part, exp.Column):
        return (
            "a variable has other values in other runs",
            part,
            f"rename the table `{part.parts[0].name}` with AS, {full}",
        )
    return "the function returns other values in each run", part, f"use columns of the tables, {full}"


_LIMIT_FIX = (
    "remove LIMIT and OFFSET, filter by a window function such as ROW_NUMBER() OVER (PARTITION BY …), or set "
    "`recompute: full`"
)


def check_derivable(text: ViewText) -> None:
    """Raise ConfigError for SQL through which headrace does not derive touched keys."""
    tree = text.tree
    if literal := find_changed_literal(text.text):
        raise ConfigError(
            f"headrace may read the literal differently than Spark: {literal}",
            where="sql",
            fix=r"write a quote inside of a text as \', give `touched_by:` for the tables that it reads, or set `recompute: full`",
        )
    for node in tree.walk():
        for what, is_found in _UNDERIVABLE.items():
            if is_found(node):
                raise refuse_touch(what, node)
    for join in tree.find_all(exp.Join):
        _check_join(join)
    for call, name in find_calls(tree):
        if name == "session_window":
            raise refuse_touch("a row can join two sessions or split one", call)


def _check_join(join: exp.Join) -> None:
    kind = (join.side or "").upper() or (join.kind or "").upper()
    if join.method:
        raise refuse_touch(
            f"a {join.method} join compares columns that the SQL does not name", join, "write `ON a.id = b.id`"
        )
    if kind in ("LEFT", "RIGHT", "FULL") and (join.kind or "").upper() not in ("SEMI", "ANTI"):
        if join.args.get("using"):
            raise refuse_touch("USING merges columns of an outer join", join, "write `ON a.id = b.id`")
        if isinstance(join.this, exp.Lateral):
            raise refuse_touch("an outer join has a LATERAL side", join, "write LATERAL VIEW OUTER")
    if kind not in ("", "INNER", "CROSS") and join.args.get("on") and join.args["on"].find(exp.Query):
        raise refuse_touch("ON of an outer, semi or anti join has a subquery", join, "move it to WHERE")


def _is_nested_join(node: exp.Expr) -> bool:
    is_parenthesis = isinstance(node, exp.Subquery) and isinstance(node.this, exp.Table)
    return is_parenthesis or (isinstance(node, exp.Table) and bool(node.args.get("joins")))


def _is_lateral_query(node: exp.Expr) -> bool:
    return isinstance(node, exp.Lateral) and node.find(exp.Query) is not None


def _is_grouping_set(node: exp.Expr) -> bool:
    return isinstance(node, exp.GroupingSets | exp.Cube | exp.Rollup) or (
        isinstance(node, exp.Group) and any(node.args.get(part) for part in ("grouping_sets", "cube", "rollup"))
    )


def _is_recursive(node: exp.Expr) -> bool:
    return isinstance(node, exp.With) and bool(node.args.get("recursive"))


def _is_pivot(node: exp.Expr) -> bool:
    return isinstance(node, exp.Pivot)


def _is_qualify(node: exp.Expr) -> bool:
    return isinstance(node, exp.Qualify)


def _is_any(node: exp.Expr) -> bool:
    return isinstance(node, exp.Any) and not isinstance(node.parent, exp.Like | exp.ILike)


def _is_other_source(node: exp.Expr) -> bool:
    """Return whether a source of FROM is none that the derivation reads."""
    if not isinstance(node.parent, exp.From | exp.Join) or node is not node.parent.this:
        return False
    if isinstance(node, exp.Subquery):
        return not isinstance(node.this.unnest(), exp.Select | exp.SetOperation | exp.Table)
    return not isinstance(node, exp.Table | exp.Values | exp.Lateral)


#: Reason → question about a node.
_UNDERIVABLE: Mapping[str, Callable[[exp.Expr], bool]] = {
    "joins in parentheses are not supported": _is_nested_join,
    "a LATERAL subquery is not supported": _is_lateral_query,
    "GROUPING SETS, CUBE and ROLLUP make groups of other groups": _is_grouping_set,
    "a recursive query reads its own rows": _is_recursive,
    "PIVOT and UNPIVOT are not supported": _is_pivot,
    "QUALIFY is not supported": _is_qualify,
    "ANY may be an aggregate or a comparison, unlike bool_or and IN": _is_any,
    "a source of FROM is no table, SELECT or VALUES": _is_other_source,
}
