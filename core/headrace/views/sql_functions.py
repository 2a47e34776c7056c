"""Functions of Spark that the derivation of touched keys must tell apart."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from headrace.spark.row_functions import UNSTABLE, UNSTABLE_NAMES

#: Spark's aggregate functions, up to Spark 4.1. All other functions compute one value per row.
AGGREGATES = frozenset(
    [
        "any",
        "any_value",
        "approx_count_distinct",
        "approx_percentile",
        "approx_top_k",
        "approx_top_k_accumulate",
        "approx_top_k_combine",
        "array_agg",
        "avg",
        "bit_and",
        "bit_or",
        "bit_xor",
        "bitmap_and_agg",
        "bitmap_construct_agg",
        "bitmap_or_agg",
        "bool_and",
        "bool_or",
        "collect_list",
        "collect_set",
        "corr",
        "count",
        "count_if",
        "count_min_sketch",
        "covar_pop",
        "covar_samp",
        "every",
        "first",
        "first_value",
        "grouping",
        "grouping_id",
        "histogram_numeric",
        "hll_sketch_agg",
        "hll_union_agg",
        "kll_merge_agg_bigint",
        "kll_merge_agg_double",
        "kll_merge_agg_float",
        "kll_sketch_agg_bigint",
        "kll_sketch_agg_double",
        "kll_sketch_agg_float",
        "kurtosis",
        "last",
        "last_value",
        "listagg",
        "max",
        "max_by",
        "mean",
        "median",
        "min",
        "min_by",
        "mode",
        "percentile",
        "percentile_approx",
        "percentile_cont",
        "percentile_disc",
        "regr_avgx",
        "regr_avgy",
        "regr_count",
        "regr_intercept",
        "regr_r2",
        "regr_slope",
        "regr_sxx",
        "regr_sxy",
        "regr_syy",
        "schema_of_variant_agg",
        "skewness",
        "some",
        "std",
        "stddev",
        "stddev_pop",
        "stddev_samp",
        "string_agg",
        "sum",
        "theta_intersection_agg",
        "theta_sketch_agg",
        "theta_union_agg",
        "try_avg",
        "try_sum",
        "var_pop",
        "var_samp",
        "variance",
    ]
)
#: Functions without arguments that return the current time.
_UNSTABLE_WITHOUT_ARGUMENTS = frozenset({"unix_timestamp", "to_unix_timestamp"})
#: Texts that Spark converts to the current date or time.
_MOMENTS = frozenset({"now", "today", "tomorrow", "yesterday"})
_Call = exp.Anonymous | exp.Func


def find_calls(node: exp.Expr) -> Iterator[tuple[_Call, str]]:
    """Yield each call of a function in a part of the SQL, with its name in lower case."""
    for call in node.find_all(exp.Func):
        yield call, (call.name if isinstance(call, exp.Anonymous) else call.sql_name()).lower()


def find_unstable(node: exp.Expr) -> Iterator[exp.Expr]:
    """Yield the parts of the SQL that may have another value for the same row: calls, variables, and names of the current time."""
    yield from (call for call, name in find_calls(node) if _is_unstable_call(call, name))
    yield from (column for column in node.find_all(exp.Column) if _is_unstable_column(column))
    yield from node.find_all(exp.Parameter, exp.Placeholder, exp.SessionParameter)
    yield from (text.parent or text for text in node.find_all(exp.Literal) if _is_moment(text))


def _is_unstable_call(call: _Call, name: str) -> bool:
    has_no_arguments = not any(True for _ in call.iter_expressions())
    return name in UNSTABLE or (name in _UNSTABLE_WITHOUT_ARGUMENTS and has_no_arguments)


def _is_unstable_column(column: exp.Column) -> bool:
    """Return whether a column may be a function without parentheses, or a variable of the session."""
    parts = [part.name.lower() for part in column.parts]
    if len(parts) == 1:
        return parts[0] in UNSTABLE_NAMES
    return parts[0] == "session" or parts[:2] == ["system", "session"]


def _is_moment(text: exp.Literal) -> bool:
    """Return whether a text such as 'now', which a time zone may follow, can become a time. A text of the result stays one."""
    words = text.name.lower().split()
    is_result = isinstance(text.parent, exp.Alias | exp.Select | exp.Case) or text.arg_key == "true"
    return text.is_string and len(words) in (1, 2) and words[0] in _MOMENTS and not is_result


def has_aggregate(node: exp.Expr) -> bool:
    """Return whether a part of the SQL has a value per group; aggregates OVER a window and of subqueries do not count."""
    return any(
        (name in AGGREGATES or isinstance(call, exp.AggFunc))
        and not is_windowed(call)
        and _find_query(call, node) is _find_query(node, node)
        for call, name in find_calls(node)
    )


def is_windowed(call: exp.Expr) -> bool:
    """Return whether a call is the function of OVER (…)."""
    inner, outer = call, call.parent
    while isinstance(outer, exp.Filter | exp.IgnoreNulls | exp.RespectNulls | exp.WithinGroup) and outer.this is inner:
        inner, outer = outer, outer.parent
    return isinstance(outer, exp.Window) and outer.this is inner


def _find_query(node: exp.Expr, within: exp.Expr) -> exp.Expr | None:
    """Return the nearest query around a node, below ``within``."""
    current: exp.Expr | None = node
    while current is not None and current is not within:
        if isinstance(current, exp.Query):
            return current
        current = current.parent
    return current if isinstance(current, exp.Query) else None


def is_global_aggregate(select: exp.Select) -> bool:
    """Return whether a SELECT has aggregates without GROUP BY: one row, also if its tables have none."""
    if select.args.get("group"):
        return False
    return bool(select.args.get("having")) or any(has_aggregate(item) for item in select.expressions)
