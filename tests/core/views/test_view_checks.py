"""SQL that headrace refuses for a view. The message quotes the part of the SQL, and has a fix."""

from __future__ import annotations

import re

import pytest

from headrace.errors import ConfigError
from headrace.views.view_query import ViewQuery

#: SQL → message.
REFUSED = {
    "INSERT INTO t SELECT 1": "the SQL is not a SELECT, but INSERT",
    "WITH a AS (SELECT 1) DELETE FROM t": "the SQL is not a SELECT, but DELETE",
    "SHOW TABLES": "the SQL is not a SELECT, but SHOW",
    "SELECT 1; SELECT 2": "the SQL has 2 statements, and a view is one SELECT",
    " -- nothing": "the SQL has 0 statements, and a view is one SELECT",
    "SELECT (1 FROM t": "the SQL cannot be parsed near 'FROM' (line 1, column 14): Expecting )",
    "SELECT 1 AS k": "the SQL reads no table",
    "SELECT x AS k, x AS K FROM t": "two output columns have the name 'k'",
    "SELECT x AS k, x + 1 FROM t": "an output column of the view has no name: x + 1",
    "SELECT x AS kk FROM t": "the SQL has no output column 'k', which `key:` names\n  fix: did you mean 'kk'?",
    "SELECT x AS k FROM t VERSION AS OF 3": "a view reads the current rows of its tables: t VERSION AS OF 3",
}
#: The same for SQL that `recompute: full` allows.
REFUSED_UNLESS_FULL = {
    "SELECT x AS k FROM t ORDER BY x LIMIT 3": "the rows of a view cannot be limited: SELECT x AS k FROM t ORDER BY x",
    "SELECT x AS k FROM t TABLESAMPLE (10 PERCENT)": "a sample has other rows in each run: t TABLESAMPLE",
    "SELECT x AS k, rand() AS r FROM t": "the function returns other values in each run: rand()",
    "SELECT x AS k FROM t WHERE d < current_date": "the function returns other values in each run: CURRENT_DATE",
    "SELECT x AS k, DATE'today' - d AS n FROM t": "the function returns other values in each run: CAST('today' AS DATE)",
    "SELECT x AS k, localtimestamp AS n FROM t": "the function returns other values in each run: localtimestamp",
    "SELECT x AS k, current_time AS n FROM t": "the function returns other values in each run: current_time\n  fix: if it is a",
    "SELECT x AS k, y FROM t WHERE owner = `user`": "the function returns other values in each run: `user`",
    "SELECT x AS k, session.v FROM t": "a variable has other values in other runs: session.v",
    "SELECT x AS k, :v AS v FROM t": "a variable has other values in other runs: :v",
    "SELECT x AS k FROM t WHERE d < 'today'": "the function returns other values in each run: d < 'today'",
    "SELECT x AS k, date_add('now', 1) AS d FROM t": "the function returns other values in each run: date_add('now', 1)",
    "SELECT x AS k, Uuid() AS u FROM t": "the function returns other values in each run: Uuid()",
    "SELECT x AS k, unix_timestamp() AS u FROM t": "the function returns other values in each run: unix_timestamp()",
}
#: The same for SQL that `touched_by:` allows, too.
REFUSED_UNLESS_GIVEN = {
    "SELECT SUM(x) AS k FROM t": "the key column 'k' is a result of an aggregate, a window function or a subquery",
    "SELECT k, COUNT(*) AS n FROM (SELECT a, try_sum(b) AS k FROM t GROUP BY a) u GROUP BY k": "the key column 'k' is",
    "SELECT x AS k, y <> 'it''s' AS f FROM t": "headrace may read the literal differently than Spark: 'it''s'",
    "SELECT hash(*) AS k, x FROM (SELECT x, MAX(y) AS m FROM t GROUP BY x) u": "the key column 'k' is a result of an",
    "SELECT x AS k, RANK() OVER (ORDER BY y) AS n FROM t": (
        "a window function without PARTITION BY reads all rows: RANK() OVER (ORDER BY y)"
    ),
    "SELECT x AS k, SUM(n) OVER (PARTITION BY n) AS s FROM (SELECT x, COUNT(*) AS n FROM t GROUP BY x) u": (
        "PARTITION BY uses a result of an aggregate or of another window function: SUM(n) OVER (PARTITION BY n)"
    ),
    "SELECT x AS k, y + 1 AS z, RANK() OVER (PARTITION BY z ORDER BY x) AS n FROM t": (
        "PARTITION BY reads the alias of another column of the result: z"
    ),
    "SELECT t.x AS k, t.y / u.s AS share FROM t CROSS JOIN (SELECT SUM(y) AS s FROM t) u": (
        "an aggregate without GROUP BY reads all rows"
    ),
    "SELECT t.x AS k FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.a > t.a)": (
        "no column of the subquery is equal to a column outside of it: EXISTS(SELECT 1"
    ),
    "SELECT t.x AS k FROM t WHERE t.y > (SELECT AVG(z) FROM u)": "no column of the subquery is equal to a column outside",
    "SELECT t.x AS k FROM t WHERE t.y IN (SELECT MAX(z) FROM u GROUP BY v)": "no column of the subquery is equal",
    "SELECT t.x AS k FROM t JOIN (SELECT a, MAX(z) AS m FROM u GROUP BY a) w ON w.m = t.y": (
        "ON compares only results of aggregates, window functions or subqueries: w.m = t.y"
    ),
    "SELECT x AS k FROM t NATURAL JOIN u": "a NATURAL join compares columns that the SQL does not name: NATURAL JOIN u",
    "SELECT t.x AS k FROM t LEFT JOIN u USING (x)": "USING merges columns of an outer join: LEFT JOIN u USING (x)",
    "SELECT t.x AS k FROM t FULL JOIN u ON t.x = u.x AND u.y IN (SELECT z FROM w)": (
        "ON of an outer, semi or anti join has a subquery"
    ),
    "SELECT t.x AS k FROM t LEFT JOIN (u JOIN w ON u.a = w.a) ON t.x = u.a": "joins in parentheses are not supported",
    "SELECT t.x AS k FROM t, LATERAL (SELECT a FROM u WHERE u.x = t.x) v": "a LATERAL subquery is not supported",
    "SELECT x AS k, COUNT(*) AS n FROM t GROUP BY x, y WITH ROLLUP": "GROUPING SETS, CUBE and ROLLUP make groups of",
    "SELECT x AS k, COUNT(*) AS n FROM t GROUP BY CUBE (x, y)": "GROUPING SETS, CUBE and ROLLUP make groups of",
    "SELECT x AS k, COUNT(*) AS n FROM t GROUP BY x, y GROUPING SETS ((x), (y))": "GROUPING SETS, CUBE and ROLLUP",
    "SELECT x AS k, COUNT(*) AS n FROM t GROUP BY x, session_window(ts, '5 minutes')": (
        "a row can join two sessions or split one: session_window(ts, '5 minutes')"
    ),
    "WITH RECURSIVE r AS (SELECT x AS k FROM t UNION ALL SELECT k + 1 FROM r) SELECT k FROM r": (
        "a recursive query reads its own rows"
    ),
    "SELECT x AS k, any(b) AS b FROM t GROUP BY x": "ANY may be an aggregate or a comparison",
    "SELECT k, a FROM (SELECT x AS k, y, z FROM t) PIVOT (SUM(z) FOR y IN (1 AS a))": "PIVOT and UNPIVOT",
    "SELECT u.x AS k, i FROM (SELECT x, collect_list(y) AS ys FROM t GROUP BY x) u LATERAL VIEW explode(u.ys) v AS i": (
        "a generator reads a result of an aggregate or a window function: LATERAL VIEW explode(u.ys)"
    ),
}


def refuse(sql: str, **options: object) -> str:
    with pytest.raises(ConfigError) as error:
        ViewQuery.parse(sql, ["k"], **options)  # type: ignore[arg-type]
    assert error.value.fix
    return str(error.value)


@pytest.mark.parametrize("sql", REFUSED)
def test_refused_in_each_mode(sql: str) -> None:
    assert REFUSED[sql] in refuse(sql)
    assert REFUSED[sql] in refuse(sql, is_full=True)


@pytest.mark.parametrize("sql", REFUSED_UNLESS_FULL)
def test_refused_unless_the_view_is_computed_whole(sql: str) -> None:
    assert REFUSED_UNLESS_FULL[sql] in refuse(sql)
    assert REFUSED_UNLESS_FULL[sql] in refuse(sql, touched_by={"t": ["x"]})
    ViewQuery.parse(sql, ["k"], is_full=True)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT t.x AS k, t.user FROM t WHERE t.current_time > 1",
        "SELECT x AS k, CASE WHEN y > 1 THEN 'today' ELSE 'yesterday' END AS day, 'now' AS n FROM t",
        "SELECT x AS k FROM t WHERE note = 'today was fine'",
        "SELECT x AS k, COALESCE(y, 0) AS y, RANK() OVER (PARTITION BY y ORDER BY x) AS n FROM t",
        "SELECT y AS k, RANK() OVER (PARTITION BY z ORDER BY x) AS n, z + 1 AS z FROM t",
    ],
)
def test_names_and_texts_that_only_look_like_functions(sql: str) -> None:
    assert ViewQuery.parse(sql, ["k"]).touched_keys_sql("t", {"t": "t"}, "changed")


@pytest.mark.parametrize("sql", REFUSED_UNLESS_GIVEN)
def test_refused_unless_the_keys_are_given(sql: str) -> None:
    text = refuse(sql)
    assert REFUSED_UNLESS_GIVEN[sql] in text
    assert re.search("give `touched_by:` for the tables that it reads, or set `recompute: full`$", text)
    query = ViewQuery.parse(sql, ["k"], is_full=True)
    ViewQuery.parse(sql, ["k"], {table: ["x"] for table in query.tables})


class TestTouchedBy:
    SQL = "SELECT a AS k, b AS m FROM shop.orders"

    def refuse(self, touched_by: dict[str, list[str]]) -> str:
        with pytest.raises(ConfigError) as error:
            ViewQuery.parse(self.SQL, ["k", "m"], touched_by)
        return str(error.value)

    def test_unknown_table(self) -> None:
        assert self.refuse({"shop.order": ["a", "b"]}) == (
            "touched_by: the SQL does not read the table 'shop.order'\n  fix: did you mean 'shop.orders'?"
        )

    def test_number_of_expressions(self) -> None:
        assert self.refuse({"shop.orders": ["a"]}) == (
            "touched_by: `touched_by:` has 1 expressions for the table 'shop.orders', and the key has 2 columns\n"
            "  fix: write one expression for each of: k, m"
        )

    @pytest.mark.parametrize("expression", ["MAX(a)", "RANK() OVER (PARTITION BY a)", "(SELECT 1)"])
    def test_expression_over_several_rows(self, expression: str) -> None:
        text = self.refuse({"shop.orders": [expression, "b"]})
        assert f"an expression of `touched_by:` is not computed from one row: {expression}\n" in text

    @pytest.mark.parametrize("text", ["a, b", "*", "shop.orders.*", "a) AS x, (b", "a AS x"])
    def test_text_that_is_not_one_expression(self, text: str) -> None:
        found = self.refuse({"shop.orders": [text, "b"]})
        assert "touched_by: `touched_by:` has a text that is not one expression" in found or "cannot be parsed" in found

    @pytest.mark.parametrize("expression", ["rand()", "current_date"])
    def test_expression_with_another_value_in_each_run(self, expression: str) -> None:
        assert "other values in each run" in self.refuse({"shop.orders": [expression, "b"]})

    def test_comment(self) -> None:
        query = ViewQuery.parse(self.SQL, ["k", "m"], {"shop.orders": ["a -- the customer", "b"]})
        assert query.touched_keys_sql("shop.orders", {"shop.orders": "t"}, "changed")

    def test_expression_that_cannot_be_parsed(self) -> None:
        assert "the SQL cannot be parsed" in self.refuse({"shop.orders": ["a +", "b"]})


def test_deep_nesting_is_refused() -> None:
    sql = f"SELECT {'(' * 500}x{')' * 500} AS k FROM t"
    assert refuse(sql) == (
        "sql: the SQL is nested too deeply\n  fix: remove parentheses, or move parts of the SQL into WITH"
    )
