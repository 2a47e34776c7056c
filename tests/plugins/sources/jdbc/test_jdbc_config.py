"""Options of the source, the choice of tables, and the explanation of drivers' errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headrace import ConfigError, HeadraceError
from headrace.errors import DataError, LoginError, RetriableError
from headrace.testing.plugins import PluginConformance
from headrace_sources.jdbc.database_kinds import KINDS, find_kind
from headrace_sources.jdbc.jdbc_config import JdbcConfig
from headrace_sources.jdbc.jdbc_database import JdbcDatabase, TableName
from headrace_sources.jdbc.jdbc_errors import explain_jdbc_error, explain_unknown_type
from headrace_sources.jdbc.jdbc_source import JdbcSource
from headrace_sources.jdbc.jdbc_tables import check_names, choose_tables, omit_partitions

PLAIN = {"connection.url": "jdbc:postgresql://db/shop", "mode": "bulk"}
TABLES = [TableName(None, "public", "orders"), TableName(None, "public", "items"), TableName(None, "old", "orders")]


class TestKit(PluginConformance):
    plugin_class = JdbcSource
    refused = (
        {"mode": "sometimes"},
        {"connection.url": "jdbc:h2:mem:shop"},
        {"connection.url": "jdbc:postgresql://db/shop?user=me&password=hunter2"},
        {"connection.url": "jdbc:postgresql://db/shop?ssl=true&sslpassword=hunter2"},
        {"connection.url": "jdbc:mariadb://db/shop?keyStorePassword=hunter2"},
        {"connection.url": "jdbc:mysql://db/shop?trustCertificateKeyStorePassword=hunter2"},
        {"connection.url": "jdbc:mysql://(host=db,password=hunter2)/shop"},
        {"query": "delete from orders"},
        {"table.include.list": "public.(orders"},
        {"db.timezone": "Mars/Olympus"},
        {"dbtable": "orders"},
    )

    def config(self, folder: Path) -> dict[str, Any]:
        return {
            "connection.url": "jdbc:postgresql://db/shop",
            "connection.user": "me",
            "connection.password": "hunter2",
            "mode": "timestamp",
            "timestamp.column.name": "updated_at",
            "topic.prefix": "shop.",
        }


def refuse(**options: Any) -> str:
    with pytest.raises(ConfigError) as error:
        JdbcSource({**PLAIN, **options})
    return str(error.value)


def test_columns_go_with_the_mode() -> None:
    assert "`mode: timestamp` needs `timestamp.column.name`" in refuse(mode="timestamp")
    assert "`mode: bulk` does not use `incrementing.column.name`" in refuse(**{"incrementing.column.name": "id"})


def test_only_a_load_finds_missing_rows() -> None:
    by_number = {"mode": "incrementing", "incrementing.column.name": "id"}
    assert "write `reconcile: 1 hour` in place of `delete.missing`" in refuse(**by_number, **{"delete.missing": True})
    assert "write `delete.missing: true` in place of `reconcile`" in refuse(reconcile="1 hour")
    assert "read all keys without end" in refuse(**by_number, reconcile="0 seconds")
    assert "'hourly' is not an interval" in refuse(**by_number, reconcile="hourly")


def test_options_that_find_missing_rows_are_declared_and_described() -> None:
    by_number = JdbcSource({**PLAIN, "mode": "incrementing", "incrementing.column.name": "id", "reconcile": "6 hours"})
    assert by_number.finds_missing_rows
    assert any("every 6 hours, all keys of the tables are read" in note for note in by_number.notes())
    assert JdbcSource({**PLAIN, "delete.missing": True}).finds_missing_rows
    assert not JdbcSource(PLAIN).finds_missing_rows


@pytest.mark.parametrize("query", ["delete from orders", "call sales()", "-- select\nupdate orders set a = 1", ""])
def test_query_that_is_no_select_is_an_error(query: str) -> None:
    assert "the query is not a SELECT" in refuse(query=query, **{"topic.prefix": "sales"})


@pytest.mark.parametrize("query", ["select 1", "WITH a AS (SELECT 1) SELECT * FROM a;", "/* all */ select *\nfrom a"])
def test_select_is_accepted(query: str) -> None:
    found = JdbcConfig.model_validate({**PLAIN, "query": query, "topic.prefix": "sales"}).query
    assert found == query.rstrip(";")


def test_texts_with_letters_of_a_comment_stay_in_the_query() -> None:
    query = "select * from a where v <> '/* old */' and w = 'a--b' -- all"
    assert JdbcConfig.model_validate({**PLAIN, "query": query, "topic.prefix": "sales"}).query == query


def test_query_needs_a_topic_and_no_tables() -> None:
    assert "`query` needs `topic.prefix`" in refuse(query="select 1")
    both = {"query": "select 1", "topic.prefix": "sales", "table.whitelist": "orders"}
    assert "exclude each other" in refuse(**both)


def select(**options: Any) -> list[str]:
    config = JdbcConfig.model_validate({**PLAIN, **options})
    return [table.full_name for table in choose_tables(config, TABLES)]


def test_tables_are_chosen_by_name_and_by_pattern() -> None:
    assert select() == ["public.orders", "public.items", "old.orders"]
    assert select(**{"table.whitelist": "items, old.orders"}) == ["public.items", "old.orders"]
    assert select(**{"table.include.list": ["public[.].*"]}) == ["public.orders", "public.items"]
    assert select(**{"table.exclude.list": "old[.].*,.*[.]items"}) == ["public.orders"]


@pytest.mark.parametrize("option", ["table.whitelist", "table.include.list"])
def test_unknown_table_is_an_error_with_a_suggestion(option: str) -> None:
    with pytest.raises(ConfigError) as error:
        select(**{option: "public.ordres"})
    assert f"source jdbc, {option}: no table matches 'public.ordres'" in str(error.value)
    assert "public.orders" in str(error.value)


def test_no_table_at_all_is_an_error() -> None:
    with pytest.raises(ConfigError, match="no table to read"):
        select(**{"table.exclude.list": ".*"})


@pytest.mark.parametrize(
    ("names", "what"),
    [
        (["id", 'x"||(select 1)||"'], 'contains ", which ends names in SQL'),
        (["id", "name", "ID"], "two columns have the name 'id'"),
        (["id", "_headrace_x"], "the column name '_headrace_x' is reserved"),
    ],
)
def test_columns_that_cannot_be_read_by_name_are_an_error(names: list[str], what: str) -> None:
    with pytest.raises(DataError) as error:
        check_names(names, '"', "source jdbc, public.orders")
    assert what in str(error.value)
    assert "source jdbc, public.orders" in str(error.value)


def test_names_with_letters_of_another_database_are_read() -> None:
    check_names(["a`b", "a.b", "c d", "''", "Id"], '"', "public.orders")
    check_names(['a"b'], "`", "shop.orders")


def test_each_database_has_only_the_jar_of_its_driver() -> None:
    jars = {kind.prefix: JdbcSource({**PLAIN, "connection.url": f"{kind.prefix}//db/shop"}).jars for kind in KINDS}
    assert jars["jdbc:postgresql:"]["3.5"] == ("org.postgresql:postgresql:42.7.7",)
    assert jars["jdbc:mariadb:"]["4.1"] == ("org.mariadb.jdbc:mariadb-java-client:3.5.3",)
    assert jars["jdbc:mysql:"]["3.5"] == ()
    assert JdbcSource({**PLAIN, "driver": "com.acme.Driver"}).jars["3.5"] == ()


def test_spark_reads_mariadb_with_the_dialect_of_mysql() -> None:
    options = {**PLAIN, "connection.url": "jdbc:mariadb://db/shop?useSsl=true", "fetchsize": 5}
    found = JdbcDatabase(JdbcConfig.model_validate(options)).reader_options()
    assert found["url"] == "jdbc:mysql://db/shop?useSsl=true&permitMysqlScheme"
    assert found["fetchsize"] == "5"
    assert find_kind("jdbc:oracle:thin:@db") is None


def test_types_of_columns_are_options_of_the_reader() -> None:
    database = JdbcDatabase(JdbcConfig.model_validate(PLAIN))
    types = {"changed": "STRING", "at": "TIMESTAMP_LTZ"}
    assert database.reader_options(types)["customSchema"] == "`at` TIMESTAMP_LTZ, `changed` STRING"
    assert "customSchema" not in database.reader_options()


_POSTGRESQL = "org.postgresql.util.PSQLException: "
_MARIADB = "java.sql.SQLException: (conn=5) "


@pytest.mark.parametrize(
    "text",
    [
        f"{_POSTGRESQL}FATAL: remaining connection slots are reserved for non-replication superuser connections",
        f'{_POSTGRESQL}FATAL: too many connections for role "headrace"',
        f"{_POSTGRESQL}ERROR: canceling statement due to conflict with recovery\n  Detail: User query might have needed rows",
        f"{_POSTGRESQL}ERROR: canceling statement due to statement timeout",
        f"{_POSTGRESQL}ERROR: canceling statement due to lock timeout",
        f"{_POSTGRESQL}This connection has been closed.",
        f"{_POSTGRESQL}ERROR: out of shared memory",
        f"{_POSTGRESQL}ERROR: could not serialize access due to read/write dependencies among transactions",
        f"{_POSTGRESQL}ERROR: server login has been failing, try again later (server_login_retry)",
        f"{_POSTGRESQL}FATAL: query_wait_timeout",
        f"{_POSTGRESQL}ERROR: cached plan must not change result type",
        f"{_MARIADB}Lock wait timeout exceeded; try restarting transaction",
        f"{_MARIADB}Query execution was interrupted (max_statement_time exceeded)",
        f"{_MARIADB}Server shutdown in progress",
        f"{_MARIADB}Table definition has changed, please retry transaction",
        f"{_MARIADB}User 'headrace' has exceeded the 'max_user_connections' resource (current value: 5)",
        f"{_MARIADB}Deadlock found when trying to get lock",
    ],
)
def test_errors_that_pass_are_tried_again(text: str) -> None:
    assert type(JdbcSource(PLAIN).explain(RuntimeError(text))) is RetriableError


@pytest.mark.parametrize(
    ("text", "kind", "what"),
    [
        (
            'org.postgresql.util.PSQLException: FATAL: password authentication failed for user "me"',
            LoginError,
            "authentication failed",
        ),
        (
            "java.sql.SQLInvalidAuthorizationSpecException: (conn=5) Access denied for user 'me'@'db' (using password: YES)",
            LoginError,
            "authentication failed",
        ),
        (
            "org.postgresql.util.PSQLException: Connection to db:5432 refused. Check that the hostname and port are correct",
            RetriableError,
            "not reachable",
        ),
        (
            "java.sql.SQLNonTransientConnectionException: Socket fail to connect to db. Connection refused",
            RetriableError,
            "not reachable",
        ),
        ("java.lang.ClassNotFoundException: com.mysql.cj.jdbc.Driver", ConfigError, "the driver is missing: com.mysql"),
        (
            'org.postgresql.util.PSQLException: ERROR: relation "ordres" does not exist\n  Position: 15',
            ConfigError,
            'relation "ordres" does not exist',
        ),
        ('org.postgresql.util.PSQLException: ERROR: syntax error at or near "form"', ConfigError, "rejects a query"),
        (f'{_POSTGRESQL}ERROR: syntax error at or near "$1"', ConfigError, "`jsonb_exists(a, 'b')`"),
        (f"{_POSTGRESQL}Bad value for type int : x", ConfigError, "convert the column to text with `query`"),
    ],
)
def test_errors_of_drivers_have_a_fix(text: str, kind: type[HeadraceError], what: str) -> None:
    error = JdbcSource(PLAIN).explain(RuntimeError(text))
    assert type(error) is kind
    assert what in str(error)
    assert "fix:" in str(error)


def test_partitions_of_a_chosen_table_are_not_tables_of_their_own() -> None:
    """Tables ← partitions: orders ← orders_2026 ← orders_2026_01, and items ← items_1, whose table is not chosen."""
    names = ("orders", "orders_2026", "orders_2026_01", "items_1")
    tables = [TableName(None, "public", name) for name in names]
    parents = {
        "public.orders_2026": "public.orders",
        "public.orders_2026_01": "public.orders_2026",
        "public.items_1": "public.items",
    }
    assert [table.name for table in omit_partitions(tables, parents)] == ["orders", "items_1"]
    # A table between them may be excluded.
    assert [table.name for table in omit_partitions([tables[0], tables[2]], parents)] == ["orders"]
    assert omit_partitions(tables, {}) == tables
    assert JdbcConfig(**PLAIN).table_types == ("TABLE", "PARTITIONED TABLE")


def test_type_that_spark_cannot_read_names_table_and_column() -> None:
    error = RuntimeError('[UNRECOGNIZED_SQL_TYPE] Unrecognized SQL type - name: "geometry", id: "OTHER".')
    found = explain_unknown_type(error, {"id": "int4", "place": "GEOMETRY"}, "source jdbc, public.shops")
    assert found is not None
    assert str(found).startswith(
        "source jdbc, public.shops: the column 'place' has the type geometry, which Spark cannot read"
    )
    assert explain_unknown_type(RuntimeError("no such table"), {}, "") is None


def test_value_that_the_driver_cannot_convert_is_explained() -> None:
    error = RuntimeError('org.postgresql.util.PSQLException: Cannot cast to boolean: "101"')
    found = explain_jdbc_error(error, "source jdbc, public.shops")
    assert "convert the column to text with `query`" in str(found)
