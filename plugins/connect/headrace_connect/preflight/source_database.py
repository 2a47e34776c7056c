"""Connection to the source database of a connector, and its findings."""

from __future__ import annotations

import logging
import ssl
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from difflib import get_close_matches
from typing import Any, TypeVar

from headrace.sdk import ConfigError, HeadraceError, RetriableError
from headrace.sdk.http import run_within
from headrace.sdk.options import did_you_mean
from headrace_connect.connector_class import resolve_class
from headrace_connect.preflight.database_tls import TLS_OPTIONS, TlsMode, read_mysql_tls, read_postgresql_tls
from headrace_connect.preflight.findings import Finding
from headrace_connect.preflight.mysql_checks import check_mysql
from headrace_connect.preflight.postgresql_checks import check_postgresql
from headrace_connect.preflight.sqlserver_checks import check_sqlserver, is_read_only
from headrace_connect.preflight.tds_encryption import TdsSocket, read_driver_option

T = TypeVar("T")
Query = Callable[[str], list[tuple[Any, ...]]]
_Open = Callable[[Mapping[str, str], float], AbstractContextManager[Query]]
_Check = Callable[[Query, Mapping[str, str]], Iterator[Finding]]

#: Seconds for each message of a server, and for all of them.
_TIMEOUT, _LIMIT = 20, 30


def check_database(options: Mapping[str, str]) -> list[Finding]:
    """Return the findings about the database of a connector. The errors are those of ``ask_database``."""
    return ask_database(options, lambda query: list(run_checks(query, options)))


def ask_database(options: Mapping[str, str], ask: Callable[[Query], T]) -> T:
    """Return the result of ``ask``, which runs statements in the database of a connector, within a time limit.

    ConfigError without checks for the connector's class, without the driver, and if the database rejects the connection;
    RetriableError if it does not respond.
    """
    kind = options["connector.class"]
    if not has_checks(options):
        what = f"there are no checks for {kind}"
        raise ConfigError(what, fix=f"leave out --source; {did_you_mean(kind, list(_BY_CLASS))}")
    place, connect = _check_place(options), _BY_CLASS[kind][0]

    def work() -> T:
        with connect(options, _TIMEOUT) as query:
            return ask(query)

    with _explained(place):
        what, fix = "the database did not answer all queries", f"check the load of the server; {_FIX}"
        return run_within(_LIMIT, work, what=what, fix=fix)


def has_checks(options: Mapping[str, str]) -> bool:
    """Return whether there are checks for the database of a connector."""
    return options["connector.class"] in _BY_CLASS


def run_checks(query: Query, options: Mapping[str, str]) -> Iterator[Finding]:
    """Yield the findings about a database."""
    return _BY_CLASS[options["connector.class"]][1](query, options)


@contextmanager
def open_database(options: Mapping[str, str], timeout: float) -> Iterator[Query]:
    """Yield a function that runs statements in the database of a connector. ``timeout``: seconds for each answer.

    ConfigError without a driver for the connector's class, and if the database rejects the connection or a statement; RetriableError if
    it does not respond.
    """
    kind = options["connector.class"]
    if kind not in _BY_CLASS:
        raise ConfigError(f"there is no connection for {kind}", fix=did_you_mean(kind, list(_BY_CLASS)))
    place = _check_place(options)
    with ExitStack() as stack:
        with _explained(place):
            query = stack.enter_context(_BY_CLASS[kind][0](options, timeout))

        def run(sql: str) -> list[tuple[Any, ...]]:
            with _explained(place):
                return query(sql)

        yield run


def resolve_options(options: Mapping[str, str | None], replaced: Mapping[str, str | None]) -> dict[str, str]:
    """Return the options of a connection: those of a connector, replaced by those for this machine. The class has its whole name."""
    merged = {key: value for key, value in {**options, **replaced}.items() if value is not None}
    return {**merged, "connector.class": resolve_class(merged["connector.class"], _BY_CLASS)}


def _check_place(options: Mapping[str, str]) -> str:
    """Return the address of the database. ConfigError without one, and for a reference that only the worker resolves."""
    if not options.get("database.hostname"):
        raise ConfigError("`database.hostname` has no value", where="connect", fix="set it in `connect: {config: …}`")
    place = f"{options['database.hostname']}:{options.get('database.port', 'default port')}"
    if unresolved := [key for key in _LOGIN if "${" in options.get(key, "")]:
        what = f"only Kafka Connect resolves the reference of `{unresolved[0]}`"
        fix = f"add `preflight: {{{unresolved[0]}: ${{env:NAME}}}}` to `connect:`, with a reference of this machine"
        raise ConfigError(what, where=place, fix=fix)
    return place


@contextmanager
def _explained(place: str) -> Iterator[None]:
    """Translate the errors of drivers."""
    try:
        yield
    except ImportError as error:
        fix = "pip install 'headrace[preflight]'"
        raise ConfigError(f"the driver of the database is missing: {error.name}", fix=fix) from error
    except HeadraceError as error:
        raise error.at(place) from error.__cause__
    except Exception as error:  # the drivers' errors have no common class that can be named without an import
        raise explain_failure(error).at(place) from error


_LOGIN = ("database.password", "database.user", "database.hostname", "database.port", "database.dbname")
#: Options of the connection and of the checks; connectors have more.
_READ = (*_LOGIN, *TLS_OPTIONS, "database.names", "database.instance", "database.encrypt")
_MISSPELLED = 0.85
_FIX = "check `database.hostname`, `database.port`, `database.user` and `database.password` in `connect:`"
_FIX_TLS = (
    "correct `database.sslmode` and `database.sslrootcert` of PostgreSQL, `database.ssl.mode` and `database.ssl.truststore` of MySQL and "
    "MariaDB, or `driver.encrypt` and `driver.trustStore` of SQL Server"
)


def find_misspelled(preflight: Collection[str], options: Collection[str]) -> list[str]:
    """Return warnings about options of ``preflight:`` that are nearly the name of an option of the connector."""
    known = {*options, *_READ}
    close = {key: get_close_matches(key, known, 1, _MISSPELLED) for key in preflight if key not in known}
    what = "in `preflight:` is no option of the connector; did you mean"
    return [f"{key!r} {what} {near[0]!r}?" for key, near in close.items() if near]


def explain_failure(error: Exception) -> HeadraceError:
    """Return the error of a connection. The drivers replace the errors of sockets by errors without a reason."""
    reasons: list[BaseException | None] = [error, error.__cause__, error.__context__]
    failed = next((reason for reason in reasons if isinstance(reason, ssl.SSLError)), None)
    if failed or "SSL" in str(error):  # of a server without TLS, the drivers tell in their texts only
        return ConfigError(f"the connection is not safe: {failed or error}", fix=_FIX_TLS)
    if unreached := next((reason for reason in reasons if isinstance(reason, OSError)), None):
        return RetriableError(f"the database did not respond: {unreached}", fix=f"check that it runs; {_FIX}")
    # pg8000 has the fields of PostgreSQL's error, PyMySQL a number before the text, and python-tds adds None to its texts.
    first = error.args[0] if error.args else None
    texts = (item for item in error.args if isinstance(item, str))
    text = first.get("M", error) if isinstance(first, dict) else next(texts, error)
    return ConfigError(f"the database cannot be checked: {text}", fix=_FIX)


@contextmanager
def _open_postgresql(options: Mapping[str, str], timeout: float) -> Iterator[Query]:
    from pg8000 import native

    mode, context = read_postgresql_tls(options)
    connection = native.Connection(
        options.get("database.user", ""),
        host=options["database.hostname"],
        port=int(options.get("database.port", 5432)),
        password=options.get("database.password"),
        database=options.get("database.dbname"),
        timeout=timeout,
        # None tries TLS first, as `prefer`.
        ssl_context=None if mode == TlsMode.PREFERRED else context or False,
    )
    with closing(connection):
        yield lambda sql: [tuple(row) for row in connection.run(sql) or ()]


@contextmanager
def _open_mysql(options: Mapping[str, str], timeout: float) -> Iterator[Query]:
    connection = _connect_mysql(options, timeout)
    with closing(connection), connection.cursor() as cursor:

        def run(sql: str) -> list[tuple[Any, ...]]:
            cursor.execute(sql)
            return list(cursor.fetchall())

        yield run


@contextmanager
def _open_sqlserver(options: Mapping[str, str], timeout: float) -> Iterator[Query]:
    import pytds

    _reject_logins(options)
    # Without a handler, Python prints the driver's messages about a login that failed.
    logging.getLogger("pytds").addHandler(logging.NullHandler())
    port = int(options.get("database.port", 1433))
    try:
        connection = pytds.connect(
            options["database.hostname"],
            port=port,
            user=options.get("database.user", ""),
            password=options.get("database.password", ""),
            login_timeout=timeout,
            disable_connect_retry=True,
            autocommit=True,
            readonly=is_read_only(options),
            sock=TdsSocket(options, port, timeout),
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


def _connect_mysql(options: Mapping[str, str], timeout: float) -> Any:
    import pymysql
    from pymysql.constants import CR

    login = {
        "host": options["database.hostname"],
        "port": int(options.get("database.port", 3306)),
        "user": options.get("database.user", ""),
        "password": options.get("database.password", ""),
        "connect_timeout": timeout,
        "read_timeout": timeout,
    }
    mode, context = read_mysql_tls(options)
    if context:
        try:
            return pymysql.connect(**login, ssl=context)
        except pymysql.err.OperationalError as error:
            if mode > TlsMode.PREFERRED or error.args[0] != CR.CR_SSL_CONNECTION_ERROR:
                raise
    may_ask_key = any(options.get(f"{start}.allowPublicKeyRetrieval") == "true" for start in ("database", "driver"))
    refused = _CLEAR_LOGINS if may_ask_key else (*_CLEAR_LOGINS, "sha256_password")
    login |= {"ssl_disabled": True, "auth_plugin_map": dict.fromkeys(refused, _RefusedLogin)}
    if may_ask_key:
        return pymysql.connect(**login)
    try:
        return pymysql.connect(**login, server_public_key=_NO_KEY)
    except (ValueError, RuntimeError) as error:  # the driver encrypts the password, and fails with this key
        raise _refuse_login() from error


#: Ways to log in that send the password itself. PyMySQL accepts them without TLS, and drivers of Java do not.
_CLEAR_LOGINS = ("mysql_clear_password", "dialog")
#: `sha256_password` and `caching_sha2_password` encrypt the password with a key that any server can send. With a key of its own, PyMySQL
#: does not ask for one.
_NO_KEY = b"-"


class _RefusedLogin:
    """Way to log in that needs TLS."""

    def __init__(self, connection: Any) -> None:
        """Keep nothing: the driver gives the connection to each class of logins."""

    def authenticate(self, packet: Any) -> Any:
        raise _refuse_login()


def _refuse_login() -> ConfigError:
    what = "the login of this user sends the password, and the connection has no TLS: the connector's driver rejects it too"
    return ConfigError(
        what, fix="set `database.ssl.mode` to `required` or a stricter mode, and enable TLS in the server"
    )


_BY_CLASS: Mapping[str, tuple[_Open, _Check]] = {
    "io.debezium.connector.postgresql.PostgresConnector": (_open_postgresql, check_postgresql),
    "io.debezium.connector.mysql.MySqlConnector": (_open_mysql, check_mysql),
    "io.debezium.connector.mariadb.MariaDbConnector": (_open_mysql, check_mysql),
    "io.debezium.connector.sqlserver.SqlServerConnector": (_open_sqlserver, check_sqlserver),
}
