"""Errors of JDBC drivers, which Spark and Py4J pass on as text."""

from __future__ import annotations

import re

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
    r"Connection is closed|I/O error occurred|Too many connections|too many clients|Connection timed out|ServerSocket|deadlock",
    re.IGNORECASE,
)
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
    if _UNREACHABLE.search(message):
        return RetriableError(
            f"the database is not reachable: {message}", where=where, fix="check `connection.url` and the database"
        )
    for pattern, fix in (
        (_NO_TABLE, "create the table, or correct its name"),
        (_NO_COLUMN, "correct the name of the column in the options of the source"),
        (_DENIED, "grant SELECT to `connection.user`"),
    ):
        if pattern.search(message):
            return ConfigError(message, where=where, fix=fix)
    return ConfigError(f"the database rejects a query: {message}", where=where, fix="correct the options of the source")
