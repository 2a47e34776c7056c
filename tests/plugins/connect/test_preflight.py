"""`headrace check --source` against real databases: each finding, and the statement that fixes it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pymysql
import pytest
import yaml
from click.testing import CliRunner, Result
from pg8000 import native

from headrace.cli.main import cli
from headrace_connect.preflight.findings import choose_tables
from headrace_connect.preflight.mysql_checks import check_mysql
from headrace_connect.preflight.postgresql_checks import check_postgresql
from headrace_connect.preflight.source_database import explain_failure
from headrace_stack import MariaDb, Postgres

TABLES = """
create schema market;
create table market.good (id int primary key, name text);
create table market.keyless (name text);
create table market.silent (id int primary key);
alter table market.silent replica identity nothing;
create table market.other (name text);
create role reader login password 'hunter2';
grant usage on schema market to reader;
grant select on market.good to reader
"""


def write_pipeline(folder: Path, config: dict[str, Any], **preflight: Any) -> Path:
    file = folder / "pipeline.yaml"
    block = {"config": config, **({"preflight": preflight} if preflight else {})}
    file.write_text(yaml.safe_dump({"name": "market", "connect": block}), encoding="utf-8")
    return file


def check(file: Path) -> Result:
    return CliRunner().invoke(cli, ["check", str(file), "--source"])


@pytest.fixture
def market(postgres: Postgres) -> Iterator[Postgres]:
    """Provide a database with a user who may read one of the tables, and no publication."""
    postgres.execute(TABLES)
    yield postgres
    postgres.execute(
        "drop publication if exists market; drop schema market cascade; drop owned by reader; drop role reader"
    )


def list_statements(server: Postgres, options: dict[str, str], user: str = "reader") -> list[str]:
    """Return the statements for a user who may read the log."""
    server.execute(f"alter role {user} replication")
    connection = native.Connection(
        user, host=server.host, port=server.port, password="hunter2", database=server.database
    )

    def run(sql: str) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in connection.run(sql) or ()]

    try:
        return [finding.statement for finding in check_postgresql(run, {"plugin.name": "pgoutput"} | options)]
    finally:
        connection.close()


def connect_as(server: Postgres | MariaDb, kind: str, user: str, **options: str) -> dict[str, Any]:
    database = {"database.dbname": server.database} if isinstance(server, Postgres) else {}
    login = {"database.hostname": server.host, "database.port": server.port, "database.user": user}
    return {"connector.class": f"io.debezium.connector.{kind}", **login, **database, **options}


@pytest.mark.dist
@pytest.mark.one_spark
def test_postgresql_before_and_after_its_statements(
    market: Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("READER", "hunter2")
    config = connect_as(
        market,
        "postgresql.PostgresConnector",
        "reader",
        **{
            "database.password": "${file:/worker/only:password}",
            "table.include.list": "market.good,market.keyless,market.silent,market.missing",
        },
    )
    unresolved = check(write_pipeline(tmp_path, config))
    assert "only Kafka Connect resolves the reference of `database.password`" in unresolved.stderr
    file = write_pipeline(tmp_path, config, **{"database.password": "${env:READER}"})
    result = check(file)
    assert result.exit_code == 2
    assert result.stdout.splitlines() == [
        "error: the user reader must not read the log: ALTER ROLE reader REPLICATION;",
        "error: no table matches 'market.missing': correct `table.include.list`, or create the table",
        "error: the user reader must not read market.keyless: GRANT SELECT ON market.keyless TO reader;",
        (
            "error: market.keyless has no primary key: PostgreSQL rejects its updates and deletes once it is published: "
            "ALTER TABLE market.keyless REPLICA IDENTITY FULL; or add a primary key"
        ),
        "error: the user reader must not read market.silent: GRANT SELECT ON market.silent TO reader;",
        (
            "error: market.silent has the replica identity NOTHING: deletes have no key: "
            "ALTER TABLE market.silent REPLICA IDENTITY DEFAULT;"
        ),
        (
            "error: there is no publication market, and the connector cannot create it: reader does not own market.good, "
            'market.keyless, market.silent: CREATE PUBLICATION "market" FOR TABLE market.good, market.keyless, market.silent; '
            "as their owner"
        ),
        (
            "warning: there is no signal table debezium.signals: snapshots on request fail: CREATE SCHEMA IF NOT EXISTS debezium; "
            "CREATE TABLE debezium.signals (id varchar(64) PRIMARY KEY, type varchar(32) NOT NULL, data varchar(2048));"
        ),
    ]
    assert "hunter2" not in result.output
    for line in result.stdout.splitlines():
        statement = line.rpartition(": ")[2].partition("; or")[0].partition("; as")[0]
        if statement.split()[0].isupper():
            market.execute(statement)
    file.write_text(file.read_text(encoding="utf-8").replace(",market.missing", ""), encoding="utf-8")
    again = CliRunner().invoke(cli, ["connect", "preflight", str(file)])
    assert (again.exit_code, again.stdout) == (0, "the database is ready for the connector\n")
    market.execute("drop schema debezium cascade")


@pytest.mark.dist
@pytest.mark.one_spark
def test_postgresql_schema_without_usage(market: Postgres) -> None:
    """The user may read the table, but not open the schema."""
    market.execute("revoke usage on schema market from reader; create publication market for table market.good")
    options = {"table.include.list": "market.good", "publication.name": "market"}
    statement = "GRANT USAGE ON SCHEMA market TO reader;"
    assert statement in list_statements(market, options)
    market.execute(statement)
    assert statement not in list_statements(market, options)


@pytest.mark.dist
@pytest.mark.one_spark
def test_replica_identity_of_a_dropped_index(market: Postgres) -> None:
    market.execute("alter table market.good alter name set not null; create unique index names on market.good (name)")
    market.execute("alter table market.good replica identity using index names")
    market.execute("create publication market for table market.good; insert into market.good values (1, 'a')")
    options = {"table.include.list": "market.good", "publication.name": "market"}
    assert list_statements(market, options) == []
    market.execute("drop index market.names")
    with pytest.raises(native.DatabaseError, match="does not have a replica identity"):
        market.execute("delete from market.good")
    (statement,) = list_statements(market, options)
    assert statement == "ALTER TABLE market.good REPLICA IDENTITY DEFAULT;"
    market.execute(statement)
    market.execute("delete from market.good")
    assert list_statements(market, options) == []


@pytest.mark.dist
@pytest.mark.one_spark
def test_partitions_and_their_root(market: Postgres) -> None:
    """The publication has the root, and its changes have the names of the partitions, or of the root by an option."""
    market.execute(
        "create table market.part (id int primary key) partition by range (id);"
        "create table market.part_1 partition of market.part for values from (0) to (10);"
        "create table market.part_2 partition of market.part for values from (10) to (20);"
        "grant select on all tables in schema market to reader; create publication market for table market.part"
    )
    options = {"publication.name": "market", "publication.autocreate.mode": "disabled"}
    root, leaf, both = (options | {"table.include.list": f"market.{names}"} for names in ("part", "part_1", "part.*"))
    assert list_statements(market, leaf) == list_statements(market, both) == []
    change = 'ALTER PUBLICATION "market" SET (publish_via_partition_root = {});'
    assert list_statements(market, root) == [f"{change.format('true')} or correct `table.include.list`"]
    market.execute(change.format("true"))
    assert list_statements(market, root) == list_statements(market, both) == []
    assert list_statements(market, leaf) == [f"{change.format('false')} or correct `table.include.list`"]
    market.execute("alter table market.part_2 replica identity nothing")
    assert list_statements(market, root) == ["ALTER TABLE market.part_2 REPLICA IDENTITY DEFAULT;"]


@pytest.mark.dist
@pytest.mark.one_spark
def test_rows_that_postgresql_leaves_out(market: Postgres) -> None:
    """Policies, tables without a log, and publications of a part of a table."""
    options = {"table.include.list": "market.good", "publication.name": "market"}
    statements = [
        "ALTER ROLE reader BYPASSRLS;",
        "ALTER TABLE market.good SET LOGGED;",
        'ALTER PUBLICATION "market" DROP TABLE market.good; ALTER PUBLICATION "market" ADD TABLE market.good;',
    ]
    market.execute("alter table market.good enable row level security")
    assert list_statements(market, options)[0] == statements[0]
    assert list_statements(market, options | {"plugin.name": "decoderbufs"}) == statements[:1]
    market.execute(statements[0])
    market.execute("create publication market for table market.good where (id > 5)")
    assert list_statements(market, options) == statements[2:]
    market.execute("drop publication market; create publication market for table market.good (id)")
    assert list_statements(market, options) == statements[2:]
    market.execute("drop publication market; alter table market.good set unlogged")
    assert list_statements(market, options)[0] == statements[1]
    market.execute("alter table market.good set logged; alter table market.good owner to reader")
    all_tables = options | {"publication.autocreate.mode": "ALL_TABLES"}
    (statement,) = list_statements(market, all_tables)
    assert statement.startswith("set `publication.autocreate.mode: filtered`, or CREATE PUBLICATION")
    assert list_statements(market, {"schema.include.list": "markt", "plugin.name": "decoderbufs"}) == [
        "correct `schema.include.list`"
    ]


@pytest.mark.dist
@pytest.mark.one_spark
def test_quoted_names_in_statements_of_postgresql(market: Postgres) -> None:
    market.execute("""create table market."Odd ""Name" (name text)""")
    options = {"table.include.list": 'market.Odd "Name', "publication.name": 'mar"ket', "slot.name": "it's"}
    options["signal.data.collection"] = "market.Signals of order"
    statements = list_statements(market, options)
    assert statements[0] == """GRANT SELECT ON market."Odd ""Name" TO reader;"""
    for statement in statements:
        market.execute(statement.partition("; or")[0].partition("; as")[0])
    try:
        assert list_statements(market, options) == []
    finally:
        market.execute("""drop publication "mar""ket\"""")


@pytest.mark.dist
@pytest.mark.one_spark
def test_publication_that_the_connector_cannot_change(market: Postgres) -> None:
    market.execute("grant select on market.silent to reader; alter table market.silent replica identity default")
    market.execute("create publication market for table market.good")
    options = {"publication.name": "market", "publication.autocreate.mode": "filtered"}
    options["table.include.list"] = "market.good,market.silent"
    statement = 'ALTER PUBLICATION "market" ADD TABLE market.silent;'
    assert list_statements(market, options) == [statement]
    # The superuser, who owns the publication and the tables, changes it.
    assert list(check_postgresql(market.query, options)) == []
    market.execute(statement)
    assert list_statements(market, options) == []
    market.execute("drop publication market; create publication market for all tables")
    assert list_statements(market, options) == ["set `publication.autocreate.mode: all_tables`"]


@pytest.mark.dist
@pytest.mark.one_spark
def test_publication_of_postgresql(market: Postgres) -> None:
    options = {"plugin.name": "pgoutput", "publication.name": "market", "slot.name": "market"}
    options |= {"table.include.list": "market.good,market.silent", "publication.autocreate.mode": "disabled"}
    market.execute("alter table market.silent replica identity default")
    market.execute("create publication market for table market.good with (publish = 'insert')")
    market.execute("select pg_create_logical_replication_slot('market', 'test_decoding')")
    try:
        statements = [finding.statement for finding in check_postgresql(market.query, options)]
    finally:
        market.execute("select pg_drop_replication_slot('market')")
    assert statements == [
        "set another `slot.name`",
        "ALTER PUBLICATION \"market\" SET (publish = 'insert, update, delete, truncate');",
        'ALTER PUBLICATION "market" ADD TABLE market.silent;',
    ]
    for statement in statements[1:]:
        market.execute(statement)
    assert list(check_postgresql(market.query, options)) == []


@pytest.mark.dist
@pytest.mark.one_spark
def test_mariadb_before_and_after_its_statements(mariadb: MariaDb, tmp_path: Path) -> None:
    mariadb.execute(
        "create database market; create table market.good (id int primary key); create table market.keyless (name text);"
        "create user reader@'%' identified by 'hunter2'; grant select on market.* to reader@'%';"
        "set global binlog_format = 'MIXED'; set global binlog_row_image = 'MINIMAL'; set global expire_logs_days = 1"
    )
    config = connect_as(
        mariadb,
        "mariadb.MariaDbConnector",
        "reader",
        **{
            "database.password": "hunter2",
            "database.include.list": "market",
            "database.server.id": "1",
        },
    )
    try:
        result = check(write_pipeline(tmp_path, config))
        lines = result.stdout.splitlines()
        for line in lines:
            statement = line.rpartition(": ")[2].partition("; or")[0]
            if statement.split()[0].isupper() and "…" not in statement:
                mariadb.execute(statement)
        config |= {"table.include.list": "market.good", "database.server.id": "2"}
        again = check_again(write_pipeline(tmp_path, config))
    finally:
        mariadb.execute("drop database market; drop user reader@'%'; set global binlog_format = 'ROW'")
        mariadb.execute("set global binlog_row_image = 'FULL'; set global expire_logs_days = 0")
    assert lines == [
        "error: binlog_format is MIXED: rows in events lack values: SET GLOBAL binlog_format = 'ROW';",
        "error: binlog_row_image is MINIMAL: rows in events lack values: SET GLOBAL binlog_row_image = 'FULL';",
        "error: the server has the id of the connector: set another `database.server.id`",
        (
            "warning: the server deletes its binary log after 24 hours, also if the connector did not read it: "
            "SET GLOBAL binlog_expire_logs_seconds = 259200;"
        ),
        (
            "error: the user reader@% must not read the binary log: "
            "GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO 'reader'@'%';"
        ),
        (
            "error: the user reader@% must not lock tables for the snapshot: "
            "GRANT RELOAD ON *.* TO 'reader'@'%'; or set `snapshot.locking.mode` to `none`"
        ),
        (
            "error: market.keyless has no primary key: its events have no key: "
            "ALTER TABLE `market`.`keyless` ADD PRIMARY KEY (…); or set `message.key.columns`"
        ),
        (
            "warning: there is no signal table market.signals: snapshots on request fail: "
            "CREATE TABLE `market`.`signals` (id varchar(64) PRIMARY KEY, type varchar(32) NOT NULL, data varchar(2048));"
        ),
    ]
    assert result.exit_code == 2
    assert (again.exit_code, again.stdout) == (0, "the database is ready for the connector\n"), again.output


def check_again(file: Path) -> Result:
    return CliRunner().invoke(cli, ["connect", "preflight", str(file)])


@pytest.mark.dist
@pytest.mark.one_spark
def test_rejected_login(postgres: Postgres, tmp_path: Path) -> None:
    config = connect_as(postgres, "postgresql.PostgresConnector", "postgres", **{"database.password": "hunter2"})
    result = check(write_pipeline(tmp_path, config))
    assert result.exit_code == 2
    assert "the database cannot be checked" in result.stderr
    assert ': password authentication failed for user "postgres"' in result.stderr
    assert "{'S'" not in result.stderr
    assert "hunter2" not in result.output


def test_number_of_an_error_of_mysql_is_not_printed() -> None:
    error = pymysql.err.OperationalError(1045, "Access denied for user 'reader'@'db'")
    assert explain_failure(error).what == "the database cannot be checked: Access denied for user 'reader'@'db'"


def test_statement_that_drops_a_lost_slot() -> None:
    """A mock of the rows of a slot that lost its log; PostgreSQL needs some time for one. The name has a quote."""
    rows: list[list[tuple[Any, ...]]] = [[("logical", "reader", True)], [], [("it's", "pgoutput", True, "lost", None)]]
    answers = iter(rows)
    options = {"slot.name": "it's", "publication.autocreate.mode": "disabled"}
    findings = check_postgresql(lambda _: next(answers, []), options)
    assert next(findings).statement == "SELECT pg_drop_replication_slot('it''s'); then a new snapshot"


def test_mysql_settings_that_mariadb_lacks() -> None:
    """MySQL 8 is not among the test servers; these are the values of its own defaults, but the JSON option."""
    settings = {"log_bin": "OFF", "binlog_format": "ROW", "binlog_row_image": "NOBLOB"}
    settings |= {
        "binlog_row_value_options": "PARTIAL_JSON",
        "gtid_mode": "OFF",
        "binlog_expire_logs_seconds": "2592000",
    }
    answers: dict[str, list[tuple[Any, ...]]] = {
        "show global variables": list(settings.items()),
        "select current_user()": [("root@%",)],
        "show grants": [("GRANT ALL PRIVILEGES ON *.* TO `root`@`%`",)],
    }

    def answer(sql: str) -> list[tuple[Any, ...]]:
        return answers.get(sql, [])

    assert [(finding.is_warning, finding.what) for finding in check_mysql(answer, {})] == [
        (False, "the server writes no binary log"),
        (True, "binlog_row_image is NOBLOB: rows in events lack values"),
        (False, "binlog_row_value_options is PARTIAL_JSON: rows in events lack values"),
        (True, "gtid_mode is OFF: after a failover the connector does not find its position"),
    ]


def test_mysql_table_whose_key_is_an_option() -> None:
    """A mock of a server with two tables that have no primary key. The option names one of them."""

    def answer(sql: str) -> list[tuple[Any, ...]]:
        if "information_schema.tables" in sql:
            return [("shop", "items", 0), ("shop", "orders", 0)]
        if "current_user" in sql:
            return [("root@%",)]
        if "grants" in sql:
            return [("GRANT ALL PRIVILEGES ON *.* TO `root`@`%`",)]
        return [("log_bin", "ON")] if "variables" in sql else []

    findings = check_mysql(answer, {"message.key.columns": "shop.items:id;(.*).customers:id,name"})
    assert [finding.what for finding in findings] == ["shop.orders has no primary key: its events have no key"]


@pytest.mark.parametrize(
    ("version", "filters", "statements"),
    [
        ("8.4.3", ("", ""), []),
        ("8.4.3", ("shop,market", ""), []),
        (
            "8.0.36",
            ("crm, Shop", "shop"),
            ["add `binlog_do_db = shop` to its configuration, or remove all `binlog_do_db`"],
        ),
        ("10.11.6-MariaDB", ("", "crm,shop"), ["remove `binlog_ignore_db = shop` from its configuration"]),
        ("11.4.2-MariaDB-log", ("shop", "shop"), []),
    ],
)
def test_databases_that_the_binary_log_leaves_out(
    version: str, filters: tuple[str, str], statements: list[str]
) -> None:
    """A mock of servers, because the options of these filters need a restart."""
    settings = [("log_bin", "ON"), ("version", version), ("lower_case_table_names", "0")]
    answers: dict[str, list[tuple[Any, ...]]] = {
        "show global variables": settings,
        "select current_user()": [("root@%",)],
        "show grants": [("GRANT ALL PRIVILEGES ON *.* TO `root`@`%`",)],
        f"show {'binary log' if version == '8.4.3' else 'master'} status": [("binlog.000001", 4, *filters)],
    }

    def answer(sql: str) -> list[tuple[Any, ...]]:
        return [("shop", "items", 1)] if "information_schema" in sql else answers[sql]

    found = list(check_mysql(answer, {"table.include.list": "shop.items"}))
    assert [finding.statement for finding in found] == [f"{statement}, and restart it" for statement in statements]
    assert all("logs no changes of the database shop" in finding.what for finding in found)


@pytest.mark.parametrize(
    ("options", "captured"),
    [
        ({}, ["a.x", "a.y", "b.x"]),
        ({"table.include.list": "A.X, b[.].*"}, ["a.x", "b.x"]),
        ({"table.exclude.list": "a.x"}, ["a.y", "b.x"]),
        ({"schema.include.list": "a", "table.exclude.list": ".*y"}, ["a.x"]),
        ({"database.exclude.list": "a"}, ["b.x"]),
        ({"signal.data.collection": "a.x"}, ["a.y", "b.x"]),
        ({"table.include.list": "*"}, []),
        ({"table.include.list": r"a[.]x{1\,2}"}, ["a.x"]),
    ],
)
def test_captured_tables(options: dict[str, str], captured: list[str]) -> None:
    assert choose_tables(options, ["a.x", "a.y", "b.x"]) == captured


def test_file_without_a_database(tmp_path: Path) -> None:
    file = tmp_path / "pipeline.yaml"
    file.write_text("name: market\n", encoding="utf-8")
    result = check(file)
    assert (result.exit_code, "no block of the file names a source database" in result.stderr) == (2, True)
    assert "add `connect:`" in result.stderr


def test_connector_without_checks(tmp_path: Path) -> None:
    result = check(write_pipeline(tmp_path, {"connector.class": "io.debezium.connector.oracle.OracleConnector"}))
    assert (result.exit_code, "there are no checks for io.debezium.connector.oracle" in result.stderr) == (2, True)
