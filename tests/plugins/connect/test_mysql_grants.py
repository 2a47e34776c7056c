"""Privileges that a user of MySQL or MariaDB needs for a connector."""

from __future__ import annotations

from typing import Any

import pymysql
import pytest

from headrace_connect.preflight.mysql_checks import check_mysql
from headrace_connect.preflight.mysql_grants import MysqlGrants
from headrace_stack import MariaDb


@pytest.mark.dist
@pytest.mark.one_spark
def test_exact_privileges_of_mariadb(mariadb: MariaDb) -> None:
    """Names of other privileges contain the needed ones, and the name of the user and of a table have quotes."""
    user = "'q''u'@'%'"
    mariadb.execute(
        "create database market; create table market.good (id int primary key); create table market.`a-b``c` (id int primary key);"
        f"create user {user} identified by 'hunter2'; grant replication slave admin, binlog monitor on *.* to {user};"
        f"grant insert on market.`a-b``c` to {user}"
    )
    options = {"table.include.list": "market.good,market.a-b`c"}
    try:
        before = list_mysql_statements(mariadb, "q'u", options)
        for statement in before:
            if statement.startswith("GRANT"):
                mariadb.execute(statement.partition("; or")[0])
        mariadb.execute(f"grant select on market.* to {user}")
        after = list_mysql_statements(mariadb, "q'u", options)
    finally:
        mariadb.execute(f"drop database market; drop user {user}")
    assert before == [
        f"GRANT REPLICATION SLAVE ON *.* TO {user};",
        f"GRANT RELOAD ON *.* TO {user}; or set `snapshot.locking.mode` to `none`",
        f"correct `table.include.list`, create the table, or GRANT SELECT on it TO {user}",
        f"GRANT SELECT ON `market`.`a-b``c` TO {user};",
    ]
    assert after == []


def list_mysql_statements(server: MariaDb, user: str, options: dict[str, str]) -> list[str]:
    connection = pymysql.connect(host=server.host, port=server.port, user=user, password="hunter2")

    def run(sql: str) -> list[tuple[Any, ...]]:
        with connection.cursor() as cursor:
            cursor.execute(sql)
            return list(cursor.fetchall())

    with connection:
        return [finding.statement for finding in check_mysql(run, options)]


@pytest.mark.parametrize(
    ("grants", "privilege", "table", "is_granted"),
    [
        ("GRANT SELECT, RELOAD ON *.* TO `u`@`%`", "RELOAD", "", True),
        ("GRANT ALL PRIVILEGES ON *.* TO `u`@`%` WITH GRANT OPTION", "RELOAD", "", True),
        ("GRANT ALL PRIVILEGES ON `shop`.* TO `u`@`%`", "RELOAD", "", False),
        ("GRANT ALL PRIVILEGES ON `shop`.* TO `u`@`%`", "SELECT", "shop.orders", True),
        ("GRANT REPLICATION SLAVE ADMIN ON *.* TO `u`@`%`", "REPLICATION SLAVE", "", False),
        ("GRANT `RELOAD` TO `u`@`%`", "RELOAD", "", False),
        (r"GRANT SELECT ON `my\_shop`.* TO `u`@`%`", "SELECT", "my_shop.orders", True),
        (r"GRANT SELECT ON `my\_shop`.* TO `u`@`%`", "SELECT", "my1shop.orders", False),
        ("GRANT SELECT ON `sh%`.* TO `u`@`%`", "SELECT", "shop.orders", True),
        ("GRANT SELECT ON `my_shop`.`orders` TO `u`@`%`", "SELECT", "my1shop.orders", False),
        ("GRANT SELECT (`a`, `b`), INSERT ON `shop`.`orders` TO `u`@`%`", "SELECT", "shop.orders", False),
        ("GRANT SELECT (`a`, `b`), INSERT ON `shop`.`orders` TO `u`@`%`", "INSERT", "shop.orders", True),
        ('GRANT SELECT ON "a""b"."orders" TO "u"@"%"', "SELECT", 'a"b.orders', True),
        ("GRANT SELECT ON *.* TO `u`@`%`\nREVOKE SELECT ON `shop`.* FROM `u`@`%`", "SELECT", "shop.orders", False),
        ("GRANT SELECT ON *.* TO `u`@`%`\nREVOKE SELECT ON `shop`.* FROM `u`@`%`", "SELECT", "a.orders", True),
        ("GRANT EXECUTE ON PROCEDURE `shop`.`orders` TO `u`@`%`", "EXECUTE", "shop.orders", False),
    ],
)
def test_privileges_in_grants(grants: str, privilege: str, table: str, is_granted: bool) -> None:
    assert MysqlGrants(grants.splitlines()).has(privilege, *table.split(".")) == is_granted


def test_locks_of_snapshots() -> None:
    """A mock of a server of Amazon RDS, where the connector locks tables, and a user without the privileges."""

    def answer(sql: str) -> list[tuple[Any, ...]]:
        if "information_schema.tables" in sql:
            return [("shop", "orders", 1)]
        if "current_user" in sql:
            return [("reader@%",)]
        if sql.endswith("status"):
            return [("binlog.000001", 4, "", "")]
        grant = "GRANT SELECT, REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO `reader`@`%`"
        return [("log_bin", "ON"), ("basedir", "/rdsdbbin/mysql/")] if "variables" in sql else [(grant,)]

    (statement,) = (finding.statement for finding in check_mysql(answer, {}))
    assert statement == "GRANT RELOAD, LOCK TABLES ON *.* TO 'reader'@'%'; or set `snapshot.locking.mode` to `none`"
    for option in ({"snapshot.locking.mode": "none"}, {"snapshot.mode": "never"}):
        assert list(check_mysql(answer, option)) == []
