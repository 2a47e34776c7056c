"""Connection to the source database of a connector, and its findings."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from typing import Any

from headrace.sdk import ConfigError
from headrace.sdk.options import did_you_mean
from headrace_connect.preflight.findings import Finding
from headrace_connect.preflight.mysql_checks import check_mysql
from headrace_connect.preflight.postgresql_checks import check_postgresql

Query = Callable[[str], list[tuple[Any, ...]]]

#: Seconds to connect, and for a query.
_TIMEOUT = 20
_POSTGRES = "io.debezium.connector.postgresql.PostgresConnector"
_MYSQL = ("io.debezium.connector.mysql.MySqlConnector", "io.debezium.connector.mariadb.MariaDbConnector")


def check_database(options: Mapping[str, str]) -> list[Finding]:
    """Return the findings about the database of a connector.

    ConfigError without checks for the connector's class, without the driver, and if the database rejects the connection.
    """
    kind = options["connector.class"]
    if kind not in (_POSTGRES, *_MYSQL):
        what = f"there are no checks for {kind}"
        raise ConfigError(what, fix=f"leave out --source; {did_you_mean(kind, [_POSTGRES, *_MYSQL])}")
    place = f"{options.get('database.hostname')}:{options.get('database.port', 'default port')}"
    if unresolved := [key for key in ("database.password", "database.user") if "${" in options.get(key, "")]:
        what = f"only Kafka Connect resolves the reference of `{unresolved[0]}`"
        fix = f"add `preflight: {{{unresolved[0]}: ${{env:NAME}}}}` to `connect:`, with a reference of this machine"
        raise ConfigError(what, where=place, fix=fix)
    connect, check = (_open_postgresql, check_postgresql) if kind == _POSTGRES else (_open_mysql, check_mysql)
    try:
        with connect(options) as query:
            return list(check(query, options))
    except ImportError as error:
        fix = "pip install 'headrace[preflight]'"
        raise ConfigError(f"the driver of the database is missing: {error.name}", fix=fix) from error
    except ConfigError:
        raise
    except Exception as error:  # the drivers' errors have no common class that can be named without an import
        raise ConfigError(f"the database cannot be checked: {error}", where=place, fix=_FIX) from error


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


def _needs_tls(mode: str) -> bool | None:
    """Return pg8000's option: None tries TLS first, as libpq's ``prefer``."""
    return {"disable": False, "prefer": None, "allow": None}.get(mode, True)
