"""Connection to the source database of a connector, and its findings."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager
from typing import Any

from headrace.sdk import ConfigError
from headrace.sdk.options import did_you_mean
from headrace_connect.preflight.findings import Finding
from headrace_connect.preflight.mysql_checks import check_mysql
from headrace_connect.preflight.postgresql_checks import check_postgresql
from headrace_connect.preflight.sqlserver_checks import check_sqlserver, is_read_only
from headrace_connect.preflight.tds_encryption import TdsSocket, read_driver_option

Query = Callable[[str], list[tuple[Any, ...]]]
_Open = Callable[[Mapping[str, str]], AbstractContextManager[Query]]
_Check = Callable[[Query, Mapping[str, str]], Iterator[Finding]]

#: Seconds to connect, and for a query.
_TIMEOUT = 20


def check_database(options: Mapping[str, str]) -> list[Finding]:
    """Return the findings about the database of a connector.

    ConfigError without checks for the connector's class, without the driver, and if the database rejects the connection.
    """
    kind = options["connector.class"]
    if kind not in _BY_CLASS:
        what = f"there are no checks for {kind}"
        raise ConfigError(what, fix=f"leave out --source; {did_you_mean(kind, list(_BY_CLASS))}")
    place = f"{options.get('database.hostname')}:{options.get('database.port', 'default port')}"
    if unresolved := [key for key in ("database.password", "database.user") if "${" in options.get(key, "")]:
        what = f"only Kafka Connect resolves the reference of `{unresolved[0]}`"
        fix = f"add `preflight: {{{unresolved[0]}: ${{env:NAME}}}}` to `connect:`, with a reference of this machine"
        raise ConfigError(what, where=place, fix=fix)
    connect, check = _BY_CLASS[kind]
    try:
        with connect(options) as query:
            return list(check(query, options))
    except ImportError as error:
        fix = "pip install 'headrace[preflight]'"
        raise ConfigError(f"the driver of the database is missing: {error.name}", fix=fix) from error
    except ConfigError:
        raise
    except Exception as error:  # the drivers' errors have no common class that can be named without an import
        # python-tds adds None to its texts.
        text = error.args[0] if error.args and isinstance(error.args[0], str) else error
        raise ConfigError(f"the database cannot be checked: {text}", where=place, fix=_FIX) from error


_FIX = "check `database.hostname`, `database.port`, `database.user` and `database.password` in `connect:`"


@contextmanager
def _open_postgresql(options: Mapping[str, str]) -> Iterator[Query]:
    from pg8000 import native

    connection = native.Connection(
        options.get("database.user", ""),
        host=options.get("database.hostname", "localhost"),
        port=int(options.get("database.port", 5432)),
        password=options.get("database.password"),
        database=options.get("database.dbname"),
        timeout=_TIMEOUT,
        ssl_context=_needs_tls(options.get("database.sslmode", "prefer")),
    )
    with closing(connection):
        yield lambda sql: [tuple(row) for row in connection.run(sql) or ()]


@contextmanager
def _open_mysql(options: Mapping[str, str]) -> Iterator[Query]:
    import pymysql

    connection = pymysql.connect(
        host=options.get("database.hostname", "localhost"),
        port=int(options.get("database.port", 3306)),
        user=options.get("database.user", ""),
        password=options.get("database.password", ""),
        connect_timeout=_TIMEOUT,
        read_timeout=_TIMEOUT,
    )
    with closing(connection), connection.cursor() as cursor:

        def run(sql: str) -> list[tuple[Any, ...]]:
            cursor.execute(sql)
            return list(cursor.fetchall())

        yield run


@contextmanager
def _open_sqlserver(options: Mapping[str, str]) -> Iterator[Query]:
    import pytds

    _reject_logins(options)
    port = int(options.get("database.port", 1433))
    try:
        connection = pytds.connect(
            options.get("database.hostname", "localhost"),
            port=port,
            user=options.get("database.user", ""),
            password=options.get("database.password", ""),
            login_timeout=_TIMEOUT,
            disable_connect_retry=True,
            autocommit=True,
            readonly=is_read_only(options),
            sock=TdsSocket(options, port, _TIMEOUT),
        )
    except TimeoutError as error:  # python-tds raises it without a text for most errors of a connection
        raise error.__cause__ or error from None
    with closing(connection), connection.cursor() as cursor:

        def run(sql: str) -> list[tuple[Any, ...]]:
            cursor.execute(sql)
            # A procedure can have results without columns before its rows.
            while not cursor.description and cursor.nextset():
                pass
            return list(cursor.fetchall()) if cursor.description else []

        yield run


def _reject_logins(options: Mapping[str, str]) -> None:
    """Raise ConfigError for options of SQL Server's connector that select a port or a login which python-tds does not."""
    fix = "add {} to `connect: {{preflight: …}}`"
    if "database.instance" in options and "database.port" not in options:
        what = "the preflight does not look up the port of `database.instance`"
        raise ConfigError(what, fix=fix.format("the port of the instance, `database.port`,"))
    kind = read_driver_option(options, "authentication", "NotSpecified")
    is_integrated = read_driver_option(options, "integratedSecurity", "false").lower() == "true"
    if is_integrated or kind.lower() not in ("notspecified", "sqlpassword"):
        what = "the preflight has logins with a user and a password of SQL Server alone"
        names = "`driver.authentication: SqlPassword`, `driver.integratedSecurity: false` and such a login"
        raise ConfigError(what, fix=fix.format(names))


def _needs_tls(mode: str) -> bool | None:
    """Return pg8000's option: None tries TLS first, as libpq's ``prefer``."""
    return {"disable": False, "prefer": None, "allow": None}.get(mode, True)


_BY_CLASS: Mapping[str, tuple[_Open, _Check]] = {
    "io.debezium.connector.postgresql.PostgresConnector": (_open_postgresql, check_postgresql),
    "io.debezium.connector.mysql.MySqlConnector": (_open_mysql, check_mysql),
    "io.debezium.connector.mariadb.MariaDbConnector": (_open_mysql, check_mysql),
    "io.debezium.connector.sqlserver.SqlServerConnector": (_open_sqlserver, check_sqlserver),
}
