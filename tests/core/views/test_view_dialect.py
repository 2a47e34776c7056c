"""SQL that headrace prints for Spark: functions, texts and numbers are those of the user."""

from __future__ import annotations

import pytest

from headrace.views.view_dialect import find_changed_literal, parse_query, print_sql

#: Expressions that sqlglot's own dialect of Spark prints differently, or not at all.
UNCHANGED = [
    "date_sub(a, 1)",
    "datediff(a, b)",
    "to_timestamp(a, 'yyyy MM')",
    "rpad(a, 10)",
    "array(1, 2)[0]",
    "window(ts, '1 hour', '30 minutes').start",
    "first(a, TRUE) OVER (PARTITION BY b ORDER BY c)",
    "count(DISTINCT a, b)",
    "TRANSFORM(a, x -> x + 1)",
    "a_function_of_spark_9(a, 'b', `c d`.e[0])",
]


@pytest.mark.parametrize("expression", UNCHANGED)
def test_function_keeps_its_name_and_arguments(expression: str) -> None:
    assert print_sql(parse_query(f"SELECT {expression} AS x")) == f"SELECT {expression} AS x"


def test_interval_of_two_units_stays_together() -> None:
    sql = print_sql(parse_query("SELECT ts - INTERVAL 1 DAY 2 HOURS AS x"))
    assert sql == "SELECT ts - (INTERVAL '1' DAY + INTERVAL '2' HOURS) AS x"


@pytest.mark.parametrize("sql", ["GROUP BY window(ts, '1 hour')", "GROUP BY a, window(ts, '1 hour')"])
def test_window_of_time_in_group_by(sql: str) -> None:
    assert print_sql(parse_query(f"SELECT window.start FROM t {sql}")) == f"SELECT window.start FROM t {sql}"


@pytest.mark.parametrize(
    ("expression", "literal"),
    [("'a''b'", "'a''b'"), ("'a' 'b'", None), (r"'a\'b' || r'\d'", None), ("1.5D + 2L - 0.5BD + -3", None)],
)
def test_changed_literals_are_found(expression: str, literal: str | None) -> None:
    assert find_changed_literal(f"SELECT {expression} AS x FROM t") == literal
