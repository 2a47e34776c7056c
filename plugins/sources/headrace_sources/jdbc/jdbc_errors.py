"""Errors of JDBC drivers, which Spark and Py4J pass on as text."""

from __future__ import annotations

import re
from collections.abc import Mapping

from headrace.sdk import ConfigError, HeadraceError, LoginError, RetriableError
from headrace.sdk.error_text import full_text

_MESSAGE = re.compile(
    r"(?:org\.postgresql\.util\.PSQLException|(?:java\.sql|org\.mariadb\.jdbc|com\.mysql\.cj\.jdbc)\.[\w.]*Exception): "
    r"([^\n]+(?:\n  [^\n]+)*)"
)
_NO_DRIVER = re.compile(r"ClassNotFoundException: ([\w.]*[Dd]river)\b|No suitable driver")
_LOGIN = re.compile(
    r"password authentication failed|Access denied for user|no password was provided|no pg_hba.conf entry"
)
_UNREACHABLE = re.compile(
    r"Connection (?:to \S+ )?refused|Socket fail to connect|connect timed out|Connection reset|UnknownHost|"
    r"connection attempt failed|terminating connection|the database system is|Communications link failure|unexpected end of stream|"
    r"Connection is closed|I/O error occurred|Too many connections|too many clients|Connection timed out|ServerSocket|connection has been closed|shutdown in progress|"
    r"server login has been failing|server conn crashed|pooler",
    re.IGNORECASE,
)
#: Errors that pass: limits of connections and memory, locks, time limits, and conflicts of transactions.
_BUSY = re.compile(
    r"connection slots are reserved|too many connections|max_user_connections|max_connections|query_wait_timeout|canceling statement|"
    r"deadlock|lock wait timeout|could not obtain lock|could not serialize|execution was interrupted|max_statement_time|"
    r"retry transaction|try restarting transaction|cached plan must not change|out of (?:shared )?memory|"
    r"could not (?:resize|map) shared memory|No space left|conflict with recovery|recovery is in progress|timeout",
    re.IGNORECASE,
)
_OPERATOR = re.compile(r'syntax error at or near "\$\d+"')
_VALUE = re.compile(
    r"^Bad value for type|out of range|cannot (?:convert|cast)|not a valid value|^Cannot parse", re.IGNORECASE
)
#: Error of Spark's reader for a type of the driver that it does not know: `name: "geometry", id: "OTHER"`.
_UNKNOWN_TYPE = re.compile(r'Unrecognized SQL type\W+name: "?([^",\s]+)')
_NO_TABLE = re.compile(r'relation "[^\n]+" does not exist|Table \'[^\n]+\' doesn\'t exist')
_NO_COLUMN = re.compile(r"column [^\n]+ does not exist|Unknown column '[^\n]+'")
_DENIED = re.compile(r"permission denied for|command denied to user")


def explain_jdbc_error(error: BaseException, where: str) -> HeadraceError | None:
    """Return the explanation of a driver's error; None for other errors."""
    text = full_text(error)
    if found := _NO_DRIVER.search(text):
        return ConfigError(
            f"the driver is missing: {found[1] or found[0]}",
            where=where,
            fix="add its coordinate to `spark.jars.packages` under `spark:`, and name its class with `driver`",
        )
    messages = _MESSAGE.findall(text)
    if not messages:
        return None
    message = " ".join(messages[-1].split())
    if _LOGIN.search(message):
        fix = "check `connection.user` and `connection.password`"
        return LoginError(f"authentication failed: {message}", where=where, fix=fix)
    for pattern, what, fix in (
        (_UNREACHABLE, "not reachable", "check `connection.url` and the database"),
        (_BUSY, "busy", "the query is tried again; if it fails each time, raise the limits of the database"),
    ):
        if pattern.search(message):
            return RetriableError(f"the database is {what}: {message}", where=where, fix=fix)
    for pattern, fix in (
        (_NO_TABLE, "create the table, or correct its name"),
        (_NO_COLUMN, "correct the name of the column in the options of the source"),
        (_OPERATOR, "write the function of the operator `?` in `query`: `jsonb_exists(a, 'b')`"),
        (_VALUE, "convert the column to text with `query`: `SELECT CAST(a AS …)`, or leave the row out"),
        (_DENIED, "grant SELECT to `connection.user`"),
    ):
        if pattern.search(message):
            return ConfigError(message, where=where, fix=fix)
    return ConfigError(f"the database rejects a query: {message}", where=where, fix="correct the options of the source")


def explain_unknown_type(error: BaseException, types: Mapping[str, str], where: str) -> ConfigError | None:
    """Return the error for a column whose type Spark cannot read; None for other errors. ``types``: column → type of the database."""
    found = _UNKNOWN_TYPE.search(full_text(error))
    if found is None:
        return None
    names = [name for name, kind in types.items() if kind.lower() == found[1].lower()]
    column = f"the column {names[0]!r}" if names else "a column"
    fix = "convert the column to text with `query`: `SELECT CAST(a AS …) AS a`, or leave the table out with `table.exclude.list`"
    return ConfigError(f"{column} has the type {found[1]}, which Spark cannot read", where=where, fix=fix)
