"""SQL of views over three tables of a shop, one per shape of query; all have key columns that may repeat or be null."""

from __future__ import annotations

from typing import NamedTuple

#: Table → columns. The first one is the primary key.
SHOP = {
    "shop.orders": ("id", "customer_id", "amount", "hour", "state"),
    "shop.customers": ("id", "region_id", "name"),
    "shop.regions": ("id", "label"),
}


class Shape(NamedTuple):
    """SQL of a view, and its key."""

    sql: str
    key: tuple[str, ...]


def _shape(sql: str, *key: str) -> Shape:
    return Shape(sql, key or ("k",))


SHAPES = {
    "one_table": _shape("SELECT id AS k, amount FROM shop.orders WHERE state <> 1"),
    "star": _shape("SELECT * FROM shop.orders WHERE amount IS NOT NULL", "id"),
    "total_of_one_table": _shape("SELECT customer_id AS k, SUM(amount) AS s FROM shop.orders GROUP BY customer_id"),
    "ordinal_and_having": _shape(
        "SELECT customer_id AS k, COUNT(*) AS n FROM shop.orders GROUP BY 1 HAVING COUNT(*) > 1"
    ),
    "alias_in_group_by": _shape("SELECT hour DIV 2 AS k, MAX(amount) AS m FROM shop.orders GROUP BY k"),
    "key_is_a_part_of_the_group": _shape(
        "SELECT customer_id AS k, hour DIV 2 AS h, SUM(amount) AS s FROM shop.orders GROUP BY k, h, state"
    ),
    "count_distinct": _shape(
        "SELECT state AS k, COUNT(DISTINCT customer_id) AS n, MIN(amount) AS low FROM shop.orders GROUP BY state"
    ),
    "distinct": _shape("SELECT DISTINCT customer_id AS k, state FROM shop.orders"),
    "one_row": _shape("SELECT 1 AS k, COUNT(amount) AS n, SUM(amount) AS s FROM shop.orders"),
    "arm_with_an_outer_join": _shape(
        "SELECT id AS k, region_id AS v FROM shop.customers UNION ALL SELECT r.id + 100, COALESCE(o.state, 5) "
        "FROM shop.regions r LEFT JOIN shop.orders o ON o.customer_id = r.id",
        "k",
        "v",
    ),
    "arms_with_swapped_names": _shape(
        "SELECT id AS k, region_id AS v FROM shop.customers UNION SELECT COALESCE(o.state, 5) AS v, r.label AS k "
        "FROM shop.regions r LEFT JOIN shop.orders o ON o.customer_id = r.id",
        "k",
        "v",
    ),
    "three_arms_with_swapped_names": _shape(
        "SELECT id AS k, region_id AS v FROM shop.customers UNION SELECT label AS v, id AS k FROM shop.regions "
        "UNION SELECT hour AS v, state AS k FROM shop.orders",
        "k",
        "v",
    ),
    "arm_with_a_star": _shape(
        "SELECT id, region_id FROM shop.customers UNION SELECT x.* FROM (SELECT state, hour FROM shop.orders) x",
        "id",
        "region_id",
    ),
    "arms_with_stars": _shape(
        "SELECT * FROM (SELECT id, region_id FROM shop.customers) a "
        "EXCEPT SELECT * FROM (SELECT label AS region_id, id FROM shop.regions) b",
        "id",
        "region_id",
    ),
    "grouped_arm_with_other_names": _shape(
        "SELECT id AS k, region_id AS v FROM shop.customers "
        "UNION SELECT state AS s, MAX(hour) AS h FROM shop.orders GROUP BY s",
        "k",
    ),
    "inner_join": _shape(
        "SELECT c.id AS k, COUNT(*) AS n, SUM(o.amount) AS s FROM shop.orders o "
        "JOIN shop.customers c ON o.customer_id = c.id GROUP BY c.id"
    ),
    "three_tables": _shape(
        "SELECT r.label AS k, SUM(orders.amount) AS s FROM shop.orders, shop.customers c JOIN shop.regions r "
        "ON c.region_id = r.id WHERE shop.orders.customer_id = c.id GROUP BY r.label"
    ),
    "left_join": _shape(
        "SELECT c.id AS k, COUNT(o.id) AS n, MAX(o.amount) AS m FROM shop.customers c "
        "LEFT JOIN shop.orders o ON o.customer_id = c.id AND o.state = 0 GROUP BY c.id"
    ),
    "left_join_by_its_right_side": _shape(
        "SELECT o.state AS k, COUNT(*) AS n FROM shop.customers c LEFT JOIN shop.orders o ON o.customer_id = c.id "
        "GROUP BY o.state"
    ),
    "two_left_joins": _shape(
        "SELECT o.id AS k, c.name, COALESCE(r.label, -1) AS label FROM shop.orders o "
        "LEFT JOIN shop.customers c ON o.customer_id = c.id LEFT JOIN shop.regions r ON c.region_id = r.id"
    ),
    "label_or_none_over_left_joins": _shape(
        "SELECT COALESCE(r.label, -1) AS k, COUNT(*) AS n FROM shop.orders o "
        "LEFT JOIN shop.customers c ON o.customer_id = c.id LEFT JOIN shop.regions r ON c.region_id <=> r.id GROUP BY 1"
    ),
    "missing_partner": _shape(
        "SELECT c.region_id AS k, COUNT(*) AS n FROM shop.customers c LEFT JOIN shop.orders o ON o.customer_id = c.id "
        "WHERE o.id IS NULL GROUP BY c.region_id"
    ),
    "right_join": _shape(
        "SELECT c.name AS k, o.state, SUM(o.amount) AS s FROM shop.orders o RIGHT JOIN shop.customers c "
        "ON o.customer_id = c.id GROUP BY c.name, o.state",
        "k",
        "state",
    ),
    "inner_and_right_join": _shape(
        "SELECT c.name AS k, r.label, COUNT(*) AS n FROM shop.orders o JOIN shop.customers c ON o.customer_id = c.id "
        "RIGHT JOIN shop.regions r ON c.region_id = r.id GROUP BY c.name, r.label",
        "k",
        "label",
    ),
    "full_join": _shape(
        "SELECT COALESCE(o.customer_id, c.id) AS k, COUNT(o.id) AS n, MAX(c.name) AS name FROM shop.orders o "
        "FULL OUTER JOIN shop.customers c ON o.customer_id = c.id GROUP BY COALESCE(o.customer_id, c.id)"
    ),
    "two_full_joins": _shape(
        "SELECT COALESCE(o.id, c.id, r.id) AS k, o.amount, c.name, r.label FROM shop.orders o "
        "FULL JOIN shop.customers c ON o.id = c.id FULL JOIN shop.regions r ON COALESCE(o.id, c.id) = r.id"
    ),
    "semi_join": _shape(
        "SELECT c.id AS k, c.name FROM shop.customers c LEFT SEMI JOIN shop.orders o ON o.customer_id = c.id"
    ),
    "anti_join": _shape(
        "SELECT c.region_id AS k, COUNT(*) AS n FROM shop.customers c LEFT ANTI JOIN shop.orders o "
        "ON o.customer_id = c.id AND o.state = c.name GROUP BY c.region_id"
    ),
    "self_join": _shape(
        "SELECT a.customer_id AS k, COUNT(*) AS n FROM shop.orders a JOIN shop.orders b "
        "ON a.hour = b.hour AND a.state <> b.state GROUP BY a.customer_id"
    ),
    "range_join": _shape(
        "SELECT a.id AS k, COUNT(b.id) AS n FROM shop.orders a LEFT JOIN shop.orders b "
        "ON b.customer_id = a.customer_id AND b.hour < a.hour GROUP BY a.id"
    ),
    "inner_join_using": _shape("SELECT id AS k, o.amount, c.name FROM shop.orders o JOIN shop.customers c USING (id)"),
    "derived_total": _shape(
        "SELECT c.region_id AS k, SUM(t.s) AS s, MAX(t.n) AS n FROM shop.customers c JOIN (SELECT customer_id, "
        "SUM(amount) AS s, COUNT(*) AS n FROM shop.orders GROUP BY customer_id HAVING COUNT(*) > 0) t "
        "ON t.customer_id = c.id WHERE t.n < 3 GROUP BY c.region_id"
    ),
    "latest_by_derived_maximum": _shape(
        "SELECT o.customer_id AS k, MIN(o.amount) AS amount FROM shop.orders o JOIN (SELECT customer_id, MAX(hour) AS h "
        "FROM shop.orders GROUP BY customer_id) t ON o.customer_id = t.customer_id AND o.hour = t.h GROUP BY 1"
    ),
    "common_tables": _shape(
        "WITH orders AS (SELECT * FROM shop.orders WHERE amount > 0), t(c, s) AS (SELECT customer_id, SUM(amount) "
        "FROM orders GROUP BY customer_id) SELECT c.id AS k, t.s, orders.state FROM shop.customers c "
        "LEFT JOIN t ON t.c = c.id LEFT JOIN orders ON orders.customer_id = t.c"
    ),
    "union_all": _shape(
        "SELECT k, COUNT(*) AS n, SUM(v) AS s FROM (SELECT customer_id AS k, amount AS v FROM shop.orders "
        "UNION ALL SELECT id, name FROM shop.customers) u GROUP BY k"
    ),
    "sides_of_other_types": _shape(
        "SELECT LENGTH(CAST(k AS STRING)) AS k, COUNT(*) AS n FROM (SELECT customer_id AS k FROM shop.orders "
        "UNION ALL SELECT CAST(id AS DOUBLE) AS k FROM shop.customers) u GROUP BY LENGTH(CAST(k AS STRING))"
    ),
    "except_of_other_types": _shape(
        "SELECT LENGTH(CONCAT('n', k)) AS k, COUNT(*) AS n FROM (SELECT customer_id AS k FROM shop.orders "
        "EXCEPT SELECT CAST(id AS DECIMAL(12, 2)) AS k FROM shop.customers) u GROUP BY LENGTH(CONCAT('n', k))"
    ),
    "union_of_groups": _shape(
        "SELECT 0 AS kind, state AS k, COUNT(*) AS n FROM shop.orders GROUP BY state "
        "UNION SELECT 1, region_id, COUNT(*) FROM shop.customers GROUP BY region_id",
        "kind",
        "k",
    ),
    "except": _shape("SELECT id AS k FROM shop.customers EXCEPT SELECT customer_id FROM shop.orders WHERE state = 0"),
    "intersect": _shape(
        "SELECT name AS k, id FROM shop.customers INTERSECT SELECT state, customer_id FROM shop.orders"
    ),
    "in_subquery": _shape(
        "SELECT c.region_id AS k, COUNT(*) AS n FROM shop.customers c WHERE c.id IN (SELECT customer_id "
        "FROM shop.orders WHERE amount > 1) GROUP BY c.region_id"
    ),
    "not_in_subquery": _shape(
        "SELECT c.id AS k, c.name FROM shop.customers c WHERE c.name NOT IN (SELECT o.state FROM shop.orders o)"
    ),
    "not_in_pairs": _shape(
        "SELECT c.id AS k FROM shop.customers c WHERE (c.id, c.name) NOT IN (SELECT customer_id, state FROM shop.orders)"
    ),
    "not_in_star": _shape(
        "SELECT c.id AS k FROM shop.customers c WHERE NOT (c.name IN (SELECT * FROM (SELECT state FROM shop.orders) o))"
    ),
    "pairs_not_in_star": _shape(
        "SELECT r.id AS k FROM shop.regions r WHERE (r.id, r.label) NOT IN "
        "(SELECT * FROM (SELECT customer_id, state FROM shop.orders) o)"
    ),
    "in_with_having": _shape(
        "SELECT c.id AS k, c.name FROM shop.customers c WHERE c.id IN (SELECT customer_id FROM shop.orders "
        "GROUP BY customer_id HAVING COUNT(*) > 1) OR c.name = 1"
    ),
    "exists": _shape(
        "SELECT c.name AS k, COUNT(*) AS n FROM shop.customers c WHERE EXISTS (SELECT 1 FROM shop.orders o "
        "WHERE o.customer_id = c.id AND o.state = 0) GROUP BY c.name"
    ),
    "not_exists": _shape(
        "SELECT c.id AS k, r.label FROM shop.customers c LEFT JOIN shop.regions r ON r.id = c.region_id "
        "WHERE NOT EXISTS (SELECT 1 FROM shop.orders o WHERE o.customer_id = c.id AND o.hour > r.label)"
    ),
    "scalar_subquery": _shape(
        "SELECT c.id AS k, (SELECT MAX(o.amount) FROM shop.orders o WHERE o.customer_id = c.id) AS m "
        "FROM shop.customers c WHERE c.name < 3"
    ),
    "scalar_subquery_in_where": _shape(
        "SELECT o.customer_id AS k, COUNT(*) AS n FROM shop.orders o WHERE o.amount >= (SELECT AVG(i.amount) "
        "FROM shop.orders i WHERE i.customer_id = o.customer_id) GROUP BY o.customer_id"
    ),
    "nested_subqueries": _shape(
        "SELECT r.id AS k, r.label FROM shop.regions r WHERE EXISTS (SELECT 1 FROM shop.customers c "
        "WHERE c.region_id = r.id AND c.id NOT IN (SELECT o.customer_id FROM shop.orders o WHERE o.state = 1))"
    ),
    "row_number": _shape(
        "SELECT k, amount, hour FROM (SELECT customer_id AS k, amount, hour, ROW_NUMBER() OVER "
        "(PARTITION BY customer_id ORDER BY hour DESC, id) AS n FROM shop.orders) t WHERE n = 1"
    ),
    "running_total": _shape(
        "SELECT id AS k, SUM(amount) OVER (PARTITION BY hour DIV 2 ORDER BY id) AS s FROM shop.orders "
        "WHERE customer_id IS NOT NULL"
    ),
    "two_window_functions": _shape(
        "SELECT o.id AS k, COUNT(*) OVER w AS n, LAG(o.amount) OVER (PARTITION BY c.region_id ORDER BY o.id) AS p "
        "FROM shop.orders o LEFT JOIN shop.customers c ON c.id = o.customer_id WINDOW w AS (PARTITION BY o.hour)"
    ),
    "rank_of_totals": _shape(
        "SELECT c.id AS k, c.region_id, RANK() OVER (PARTITION BY c.region_id ORDER BY SUM(o.amount), c.id) AS p "
        "FROM shop.customers c JOIN shop.orders o ON o.customer_id = c.id GROUP BY c.id, c.region_id"
    ),
    "window_over_derived_total": _shape(
        "SELECT t.state AS k, t.customer_id, t.s, SUM(t.s) OVER (PARTITION BY t.state) AS share FROM (SELECT state, "
        "customer_id, SUM(amount) AS s FROM shop.orders GROUP BY state, customer_id) t",
        "k",
        "customer_id",
    ),
    "latest_row_joined": _shape(
        "SELECT c.id AS k, t.amount FROM shop.customers c LEFT JOIN (SELECT customer_id, amount, ROW_NUMBER() OVER "
        "(PARTITION BY customer_id ORDER BY hour DESC, id) AS n FROM shop.orders) t ON t.customer_id = c.id AND t.n = 1"
    ),
    "full_join_of_totals": _shape(
        "SELECT COALESCE(a.k, b.k) AS k, a.n, b.m FROM (SELECT state AS k, COUNT(*) AS n FROM shop.orders GROUP BY state) a "
        "FULL JOIN (SELECT name AS k, COUNT(*) AS m FROM shop.customers GROUP BY name) b ON a.k = b.k"
    ),
    "total_of_totals": _shape(
        "SELECT region_id AS k, MAX(s) AS best, COUNT(*) AS n FROM (SELECT c.region_id, o.customer_id, SUM(o.amount) AS s "
        "FROM shop.orders o JOIN shop.customers c ON o.customer_id = c.id GROUP BY c.region_id, o.customer_id) t "
        "GROUP BY region_id"
    ),
    "alias_of_alias": _shape(
        "SELECT v + 1 AS k, v, SUM(amount) AS s FROM (SELECT amount, hour DIV 2 AS v FROM shop.orders) t GROUP BY v"
    ),
    "exists_as_a_value": _shape(
        "SELECT c.name AS k, SUM(CASE WHEN EXISTS (SELECT 1 FROM shop.orders o WHERE o.customer_id = c.id) THEN 1 ELSE 0 "
        "END) AS n FROM shop.customers c GROUP BY c.name"
    ),
    "not_in_or": _shape(
        "SELECT c.id AS k, c.name FROM shop.customers c WHERE NOT (c.name IN (SELECT r.label FROM shop.regions r "
        "WHERE r.id = c.region_id) OR c.region_id = 1)"
    ),
    "in_as_a_value": _shape(
        "SELECT c.id AS k, c.name IN (SELECT state FROM shop.orders WHERE amount > 0) AS f FROM shop.customers c"
    ),
    "exists_over_a_left_join": _shape(
        "SELECT r.id AS k FROM shop.regions r WHERE EXISTS (SELECT 1 FROM shop.customers c LEFT JOIN shop.orders o "
        "ON o.customer_id = c.id WHERE c.region_id = r.id AND o.id IS NULL)"
    ),
    "subquery_in_having": _shape(
        "SELECT c.id AS k, SUM(o.amount) AS s FROM shop.customers c JOIN shop.orders o ON o.customer_id = c.id "
        "GROUP BY c.id HAVING SUM(o.amount) > (SELECT MAX(r.label) FROM shop.regions r WHERE r.id = c.id)"
    ),
    "window_over_union": _shape(
        "SELECT k, v, COUNT(*) OVER (PARTITION BY v) AS n FROM (SELECT id AS k, state AS v FROM shop.orders "
        "UNION ALL SELECT id, name FROM shop.customers) u"
    ),
    "window_over_full_join": _shape(
        "SELECT o.id AS k, c.id AS j, COUNT(*) OVER (PARTITION BY o.state, c.region_id) AS n FROM shop.orders o "
        "FULL JOIN shop.customers c ON o.customer_id = c.id",
        "k",
        "j",
    ),
    "cross_join": _shape(
        "SELECT r.id AS k, c.region_id, COUNT(*) AS n FROM shop.regions r CROSS JOIN shop.customers c "
        "WHERE r.label <> c.name GROUP BY r.id, c.region_id",
        "k",
        "region_id",
    ),
    "left_join_of_left_joins": _shape(
        "SELECT r.label AS k, t.n, COUNT(*) AS c FROM shop.regions r LEFT JOIN (SELECT c.region_id, o.state AS n FROM "
        "shop.customers c LEFT JOIN shop.orders o ON o.customer_id = c.id AND o.amount > 0) t ON t.region_id = r.id "
        "GROUP BY r.label, t.n",
        "k",
        "n",
    ),
    "key_of_the_padded_side": _shape(
        "SELECT o.state AS k, COUNT(*) AS n, COUNT(r.id) AS m FROM shop.customers c LEFT JOIN shop.orders o "
        "ON o.customer_id = c.id LEFT JOIN shop.regions r ON r.label = o.state GROUP BY o.state"
    ),
    "condition_over_earlier_tables": _shape(
        "SELECT c.id AS k, COUNT(*) AS n, COUNT(r.id) AS m FROM shop.customers c JOIN shop.orders o ON o.state = 0 "
        "LEFT JOIN shop.regions r ON o.customer_id = c.id AND r.label > 0 GROUP BY c.id"
    ),
    "left_joins_with_conditions_in_where": _shape(
        "SELECT c.id AS k, o.id AS j, r.label FROM shop.customers c LEFT JOIN shop.orders o ON o.amount > 0 "
        "LEFT JOIN shop.regions r ON r.id <=> c.region_id WHERE o.customer_id = c.id AND (r.id) = (c.id)",
        "k",
        "j",
    ),
    "keys_of_two_tables": _shape(
        "SELECT c.id AS k, r.id AS j, COUNT(o.id) AS n FROM shop.customers c JOIN shop.regions r ON r.label = c.region_id "
        "LEFT JOIN shop.orders o ON o.customer_id = c.id AND r.id = o.hour GROUP BY c.id, r.id",
        "k",
        "j",
    ),
    "right_and_left_join": _shape(
        "SELECT COALESCE(o.state, r.label) AS k, COUNT(c.id) AS n FROM shop.orders o RIGHT JOIN shop.customers c "
        "ON o.customer_id = c.id LEFT JOIN shop.regions r ON r.id = c.region_id AND r.label = o.hour GROUP BY 1"
    ),
}
