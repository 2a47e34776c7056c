"""Tables and columns that a view's SQL reads, and its text over other relations."""

from __future__ import annotations

import pytest

from headrace.views.view_query import ViewQuery

TOTALS = """
SELECT c.id AS customer_id, COUNT(*) AS orders, SUM(o.amount) AS total -- per customer
FROM shop.orders o JOIN shop.customers c ON o.customer_id = c.id
WHERE o.state <> 'a; -- b' GROUP BY c.id;
"""
NAMES = {"shop.orders": "o_now", "shop.customers": "`c now`"}


def read_rows(sql: str, **names: str) -> str:
    query = ViewQuery.parse(sql, ["k"])
    return query.rows_sql({table: names[table.split(".")[-1].lower()] for table in query.tables})


def read_touched(sql: str, table: str, key: str = "k") -> str:
    """Return the SQL of touched keys on one line; tables keep their last names, and changed rows are in ``changed``."""
    query = ViewQuery.parse(sql, [key])
    names = {name: name.split(".")[-1] for name in query.tables}
    return " ".join(query.touched_keys_sql(table, names, "changed").split())


class TestText:
    def test_rows_keep_the_text_of_the_user(self) -> None:
        query = ViewQuery.parse(TOTALS, ["customer_id"])
        expected = TOTALS.replace("shop.orders", "o_now").replace("shop.customers", "`c now`").rstrip(";\n")
        assert query.rows_sql(NAMES) == expected
        assert query.tables == ("shop.orders", "shop.customers")

    def test_touched_rows_are_those_of_the_keys(self) -> None:
        query = ViewQuery.parse("SELECT id AS k, n AS `a b` FROM t -- all\nWHERE n > 0 -- positive", ["k", "a b"])
        assert query.touched_rows_sql({"t": "r"}, "touched") == (
            "SELECT headrace_view.* FROM (\nSELECT id AS k, n AS `a b` FROM r AS `t` -- all\nWHERE n > 0\n) "
            "AS headrace_view\nLEFT SEMI JOIN touched AS headrace_touched ON "
            "headrace_view.`k` <=> headrace_touched.`k` AND headrace_view.`a b` <=> headrace_touched.`a b`"
        )

    def test_table_keeps_its_last_name_as_alias(self) -> None:
        sql = "SELECT shop.orders.id AS k, orders.n, `shop.customers`.n AS m FROM shop.orders, `shop.customers`"
        assert read_rows(sql, orders="r", customers="s") == (
            "SELECT `orders`.id AS k, orders.n, `shop.customers`.n AS m FROM r AS `orders`, s AS `shop.customers`"
        )

    def test_tables_of_one_last_name_keep_their_whole_names(self) -> None:
        sql = "SELECT a.orders.id AS k FROM a.orders JOIN b.orders ON a.orders.id = b.orders.id"
        assert read_rows(sql, orders="r") == (
            "SELECT `a.orders`.id AS k FROM r AS `a.orders` JOIN r AS `b.orders` ON `a.orders`.id = `b.orders`.id"
        )

    def test_definition_in_with_hides_a_table_of_its_name(self) -> None:
        sql = "WITH orders AS (SELECT id AS k FROM orders) SELECT k FROM orders WHERE k IN (SELECT id FROM shop.orders)"
        query = ViewQuery.parse(sql, ["k"])
        assert query.tables == ("orders", "shop.orders")
        assert query.rows_sql({"orders": "r", "shop.orders": "s"}) == (
            "WITH orders AS (SELECT id AS k FROM r AS `orders`) SELECT k FROM orders "
            "WHERE k IN (SELECT id FROM s AS `shop.orders`)"
        )

    def test_recursive_definition_reads_itself(self) -> None:
        sql = "WITH RECURSIVE r AS (SELECT id AS k FROM t UNION ALL SELECT k + 1 FROM r) SELECT k FROM r"
        query = ViewQuery.parse(sql, ["k"], is_full=True)
        assert query.tables == ("t",)
        assert query.rows_sql({"t": "rows"}) == sql.replace("FROM t ", "FROM rows AS `t` ")
        assert query.needed_columns("t") == frozenset({"id", "k"})

    def test_names_in_texts_comments_and_hints_stay(self) -> None:
        sql = "SELECT /*+ BROADCAST(o) */ o.id AS k, 'shop.orders' AS t /* shop.orders */ FROM Shop.Orders AS o"
        assert read_rows(sql, orders="r") == sql.replace("Shop.Orders", "r")

    def test_tables_are_equal_in_any_case(self) -> None:
        query = ViewQuery.parse("SELECT a.id AS k FROM Shop.Orders a JOIN shop.orders b ON a.id = b.id", ["K"])
        assert query.tables == ("Shop.Orders",)
        assert query.rows_sql({"shop.ORDERS": "r"}) == "SELECT a.id AS k FROM r a JOIN r b ON a.id = b.id"


class TestNeededColumns:
    """Names of sources are among them, because a struct may have the same name."""

    def test_columns_by_table(self) -> None:
        query = ViewQuery.parse(TOTALS, ["customer_id"])
        assert query.needed_columns("shop.orders") == frozenset({"o", "c", "customer_id", "amount", "state"})
        assert query.needed_columns("Shop.Customers") == frozenset({"o", "c", "id"})

    def test_unqualified_column_may_be_of_each_table(self) -> None:
        query = ViewQuery.parse("SELECT o.id AS k, Name FROM orders o, customers c WHERE o.c = c.id", ["k"])
        assert query.needed_columns("orders") == frozenset({"o", "id", "name", "c"})
        assert query.needed_columns("customers") == frozenset({"o", "c", "id", "name"})

    def test_fields_of_structs_need_their_column(self) -> None:
        query = ViewQuery.parse("SELECT o.address.city AS k, buyer.name AS n FROM orders o", ["k"])
        assert query.needed_columns("orders") == frozenset({"o", "address", "city", "buyer", "name"})

    @pytest.mark.parametrize(
        "sql",
        [
            "WITH address AS (SELECT id, address.city AS city FROM orders) SELECT city, COUNT(*) AS n FROM address GROUP BY city",
            "SELECT address.city FROM (SELECT id FROM customers) address JOIN (SELECT id, address.city FROM orders) x USING (id)",
            "SELECT address.city FROM orders address GROUP BY address.city",
            "SELECT c.address.city FROM orders c GROUP BY c.address.city",
        ],
    )
    def test_struct_with_the_name_of_a_source(self, sql: str) -> None:
        needed = ViewQuery.parse(sql, ["city"]).needed_columns("orders")
        assert needed is not None
        assert {"address", "city"} & needed >= {"address"}

    @pytest.mark.parametrize(
        "sql",
        [
            "SELECT * FROM orders JOIN customers c ON c.id = c",
            "SELECT orders.* FROM orders JOIN customers c ON c.id = c",
            "SELECT id FROM (SELECT * FROM orders) o",
            "SELECT a AS id FROM orders AS o(a, b)",
            "SELECT o.id, to_json(struct(o.*)) AS j FROM orders o",
            "SELECT o.id, hash(*) AS h FROM orders o",
        ],
    )
    def test_star_needs_all_columns(self, sql: str) -> None:
        assert ViewQuery.parse(sql, ["id"]).needed_columns("orders") is None

    def test_star_of_count_needs_none(self) -> None:
        query = ViewQuery.parse("SELECT id, COUNT(*) AS n FROM orders GROUP BY id", ["id"])
        assert query.needed_columns("orders") == frozenset({"id"})

    def test_star_of_another_table_needs_none(self) -> None:
        query = ViewQuery.parse("SELECT c.*, o.n FROM orders o JOIN customers c ON c.id = o.c", ["id"])
        assert query.needed_columns("orders") == frozenset({"n", "c", "o"})
        assert query.needed_columns("customers") is None

    def test_columns_of_using_and_touched_by(self) -> None:
        sql = "SELECT id AS k, SUM(o.n) AS s FROM orders o JOIN customers c USING (id) GROUP BY id"
        query = ViewQuery.parse(sql, ["k"], {"orders": ["COALESCE(orders.other, 0)"]})
        assert query.needed_columns("orders") == frozenset({"id", "n", "other", "o", "orders"})


class TestTouchedKeys:
    def test_changed_rows_take_the_place_of_their_table(self) -> None:
        assert read_touched(TOTALS, "shop.orders", "customer_id") == (
            "SELECT DISTINCT `customer_id` FROM ( SELECT `customer_id` FROM ( SELECT c.id AS customer_id, "
            "NULL AS `orders`, NULL AS `total` FROM changed AS o JOIN customers AS c ON o.customer_id = c.id "
            "WHERE o.state <> 'a; -- b' GROUP BY c.id ) AS q ) AS q"
        )

    def test_each_use_of_a_table_is_changed_once(self) -> None:
        sql = read_touched("SELECT a.c AS k, COUNT(*) AS n FROM t a JOIN t b ON a.d = b.d GROUP BY a.c", "t")
        assert "FROM changed AS a JOIN t AS b" in sql
        assert "FROM t AS a JOIN changed AS b" in sql
        assert sql.count("changed") == 2

    def test_outer_join_whose_columns_are_not_read_is_left_out(self) -> None:
        sql = "SELECT c.id AS k, COUNT(o.id) AS n FROM c LEFT JOIN o ON o.c = c.id GROUP BY c.id"
        assert "JOIN" not in read_touched(sql, "c")
        assert "FROM c AS `c` JOIN changed AS `o` ON o.c = c.id GROUP BY" in read_touched(sql, "o")

    def test_column_that_the_key_reads_by_its_alias_is_computed(self) -> None:
        assert "amount * 2 AS d, d + 1 AS k, NULL AS `x`" in read_touched(
            "SELECT amount * 2 AS d, d + 1 AS k, y AS x FROM t", "t"
        )

    def test_window_of_time_stays_in_group_by(self) -> None:
        sql = "SELECT window.start AS k, COUNT(*) AS n FROM t GROUP BY window(ts, '1 hour')"
        assert (
            "SELECT window.start AS k, NULL AS `n` FROM changed AS `t` GROUP BY window(ts, '1 hour')"
            in read_touched(sql, "t")
        )

    def test_unused_definition_touches_no_key(self) -> None:
        sql = "WITH u AS (SELECT * FROM other) SELECT id AS k FROM t"
        assert (
            read_touched(sql, "other")
            == "SELECT DISTINCT `k` FROM ( SELECT NULL AS `k` FROM changed WHERE FALSE ) AS q"
        )

    def test_touched_by_replaces_the_derivation(self) -> None:
        sql = "SELECT a AS k, SUM(n) OVER () AS s FROM shop.t"
        query = ViewQuery.parse(sql, ["k"], {"SHOP.t": ["shop.t.a + 1"]})
        assert query.touched_keys_sql("shop.t", {"shop.t": "t"}, "changed") == (
            "SELECT DISTINCT (`t`.a + 1\n) AS `k` FROM changed AS `t`"
        )
