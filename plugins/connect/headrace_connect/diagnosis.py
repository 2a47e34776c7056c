"""Findings about a connector and its database, for ``headrace doctor``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from headrace.sdk import ConfigError, RetriableError
from headrace.sdk.findings import Checkup, Finding, FindingKind, Severity
from headrace_connect.connect_client import NoConnectorError
from headrace_connect.deployment import describe_status
from headrace_connect.preflight.slot_health import check_slot_health
from headrace_connect.preflight.source_database import ask_database, has_checks, resolve_options, run_checks

if TYPE_CHECKING:
    from headrace_connect.command import ConnectTarget
    from headrace_connect.deployment import Deployment

DATABASE_LOSES_CHANGES = FindingKind(
    "database-loses-changes", Severity.ERROR, "A setting of the source database loses changes, or stops the connector."
)
DATABASE_MAY_LOSE_CHANGES = FindingKind(
    "database-may-lose-changes", Severity.WARNING, "A setting of the source database may lose changes later."
)
DATABASE_REJECTED = FindingKind(
    "database-rejected", Severity.ERROR, "The source database rejects the connection, for example its password."
)
DATABASE_UNCHECKED = FindingKind(
    "database-unchecked",
    Severity.WARNING,
    "The source database cannot be checked from this machine: it does not answer, only the connector has its login, or the driver is missing.",
)
CONNECTOR_FAILED = FindingKind("connector-failed", Severity.ERROR, "The connector or one of its tasks has failed.")
CONNECTOR_MISSING = FindingKind("connector-missing", Severity.WARNING, "Kafka Connect does not have the connector.")
CONNECTOR_STOPPED = FindingKind(
    "connector-stopped", Severity.WARNING, "The connector or one of its tasks does not run."
)
_POSTGRESQL = "io.debezium.connector.postgresql.PostgresConnector"
_Query = Callable[[str], list[tuple[Any, ...]]]
#: Class of a connector → statement with the time of its database, in seconds since 1970.
_TIMES = {
    _POSTGRESQL: "select extract(epoch from clock_timestamp())::float8",
    "io.debezium.connector.mysql.MySqlConnector": "select unix_timestamp(now(6))",
    "io.debezium.connector.mariadb.MariaDbConnector": "select unix_timestamp(now(6))",
    "io.debezium.connector.sqlserver.SqlServerConnector": "select datediff_big(millisecond, '1970-01-01', sysutcdatetime()) / 1000.0",
}


def diagnose_target(target: ConnectTarget, checkup: Checkup) -> Iterator[Finding]:
    """Yield the findings about a connector and its database. Raises the errors of Kafka Connect."""
    yield from _diagnose_database(resolve_options(target.deployment.options, target.preflight), checkup)
    if not target.msk:
        yield from _diagnose_connector(target.deployment)


def _diagnose_database(options: Mapping[str, str], checkup: Checkup) -> Iterator[Finding]:
    if not has_checks(options):
        return
    where = f"{options.get('database.hostname')}:{options.get('database.port', 'default port')}"
    try:
        yield from ask_database(options, lambda query: list(_examine(query, options, where, checkup)))
    except (ConfigError, RetriableError) as error:
        # Only an error of the driver is the database's own.
        is_answer = isinstance(error, ConfigError) and not isinstance(error.__cause__, ImportError | None)
        kind = DATABASE_REJECTED if is_answer else DATABASE_UNCHECKED
        yield Finding(kind, error.what, error.where or where, error.fix)


def _examine(query: _Query, options: Mapping[str, str], where: str, checkup: Checkup) -> Iterator[Finding]:
    ((now,),) = query(_TIMES[options["connector.class"]])
    checkup.note_time(where, float(now))
    for found in run_checks(query, options):
        kind = DATABASE_MAY_LOSE_CHANGES if found.is_warning else DATABASE_LOSES_CHANGES
        yield Finding(kind, found.what, where, found.statement)
    if options["connector.class"] == _POSTGRESQL:
        yield from check_slot_health(query, options, where)


def _diagnose_connector(deployment: Deployment) -> Iterator[Finding]:
    try:
        status = deployment.status()
    except NoConnectorError as error:
        yield Finding(CONNECTOR_MISSING, error.what, error.where, error.fix)
        return
    if status.failures:
        failure = deployment.explain_failure(status.failures)
        yield Finding(CONNECTOR_FAILED, _shorten(failure.what), failure.where, failure.fix)
    elif not status.is_in("RUNNING"):
        yield Finding(CONNECTOR_STOPPED, describe_status(status), deployment.place, "headrace connect resume FILE")


def _shorten(trace: str) -> str:
    """Return the messages of a stack trace without its frames."""
    return "\n".join(line for line in trace.splitlines() if not line.lstrip().startswith(("at ", "...")))
