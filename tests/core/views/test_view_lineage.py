"""Columns of tables from which the columns of views are made."""

from __future__ import annotations

import pytest

from headrace.views.view_lineage import find_view_sources

TABLES = {
    "shop.customers": {"id": "int", "name": "string", "Email": "string"},
    "shop.orders": {"id": "int", "customer_id": "int", "total": "decimal(10,2)"},
}


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT id, name AS label FROM shop.customers", {"id": ["customers.id"], "label": ["customers.name"]}),
        ("SELECT upper(name) AS n, 1 AS one FROM shop.customers", {"n": ["~customers.name"], "one": []}),
        ("SELECT * FROM shop.customers", {"id": ["customers.id"], "Email": ["customers.Email"]}),
        ("SELECT EMAIL FROM `shop`.`customers`", {"EMAIL": ["customers.Email"]}),
        (
            "SELECT c.id, sum(o.total) AS total FROM shop.customers c JOIN shop.orders o ON o.customer_id = c.id GROUP BY c.id",
            {"id": ["customers.id"], "total": ["~orders.total"]},
        ),
        (
            "WITH a AS (SELECT id, lower(email) AS mail FROM shop.customers) SELECT id, mail AS m FROM a",
            {"id": ["customers.id"], "m": ["~customers.Email"]},
        ),
        (
            "SELECT id, name FROM shop.customers UNION ALL SELECT customer_id, 'none' FROM shop.orders",
            {"id": ["customers.id", "orders.customer_id"], "name": ["customers.name"]},
        ),
    ],
)
def test_sources_of_a_view(sql: str, expected: dict[str, list[str]]) -> None:
    found = find_view_sources(sql, TABLES, dict.fromkeys(expected, "string"))
    described = {
        column: sorted(
            ("~" if one.is_changed else "") + one.input.removeprefix("shop.") + f".{one.column}" for one in sources
        )
        for column, sources in found.items()
    }
    assert described == expected


def test_unknown_column_leaves_the_lineage_unknown() -> None:
    assert find_view_sources("SELECT id FROM shop.customers", TABLES, {"other": "int"}) == {}
