"""Checks of MySQL and MariaDB: the binary log, its retention, row images and privileges."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from headrace_connect.preflight.findings import Finding, choose_tables, find_missing_tables, has_key_option
from headrace_connect.preflight.mysql_grants import MysqlGrants

Options = Mapping[str, str]
Query = Callable[[str], list[tuple[Any, ...]]]

#: Setting → the value that a connector needs. Without a value, an empty one.
_NEEDED = {"binlog_format": "ROW", "binlog_row_image": "FULL", "binlog_row_value_options": ""}
#: Privileges to see the state of the binary log. Newer releases of MariaDB show REPLICATION CLIENT as BINLOG MONITOR.
_LOG_STATUS = ("REPLICATION CLIENT", "BINLOG MONITOR")
#: First version of MySQL with SHOW BINARY LOG STATUS, which replaces SHOW MASTER STATUS.
_BINARY_LOG_STATUS = (8, 2)
#: Days of the binary log that cover an outage over a weekend.
_RETENTION_DAYS = 3
_SYSTEM = "'mysql', 'information_schema', 'performance_schema', 'sys'"
_TABLES = f"""
select t.table_schema, t.table_name, exists (select 1 from information_schema.table_constraints c where
  c.table_schema = t.table_schema and c.table_name = t.table_name and c.constraint_type = 'PRIMARY KEY')
from information_schema.tables t where t.table_type = 'BASE TABLE' and t.table_schema not in ({_SYSTEM}) order by 1, 2"""  # noqa: S608 - constants


#: The paths of the programs of Amazon RDS and Aurora start with this one. Users there cannot lock the whole server.
_RDS = "/rdsdbbin/"


class _Table(NamedTuple):
    """Table that the user may see."""

    database: str
    table: str
    has_key: bool

    @property
    def name(self) -> str:
        return f"{self.database}.{self.table}"

    @property
    def quoted(self) -> str:
        return f"{_quote_name(self.database)}.{_quote_name(self.table)}"


def check_mysql(query: Query, options: Options) -> Iterator[Finding]:
    """Yield the findings about a server. ``options``: the connector's configuration."""
    settings = {str(name): str(value) for name, value in query("show global variables")}
    yield from _check_binlog(settings, options)
    yield from _check_retention(settings)
    ((user,),) = query("select current_user()")
    grants = MysqlGrants(str(grant) for (grant,) in query("show grants"))
    yield from _check_log_access(grants, user)
    tables = [_Table(*row) for row in query(_TABLES)]
    names = choose_tables(options, [table.name for table in tables])
    captured = [table for table in tables if table.name in names]
    if settings.get("log_bin") == "ON":
        signaled = options.get("signal.data.collection", "").partition(".")[0]
        databases = dict.fromkeys([*(table.database for table in captured), *filter(None, [signaled])])
        yield from _check_log_filters(query, settings, grants, databases)
    yield from _check_locks(grants, user, captured, settings, options)
    # A user sees only tables on which it has a privilege.
    fix = f"correct `table.include.list`, create the table, or GRANT SELECT on it TO {_quote_user(user)}"
    yield from find_missing_tables(options, names, **({} if grants.has("SELECT") else {"fix": fix}))
    for table in captured:
        if not grants.has("SELECT", table.database, table.table):
            statement = f"GRANT SELECT ON {table.quoted} TO {_quote_user(user)};"
            yield Finding(f"the user {user} must not read {table.name}", statement)
        if not table.has_key and not has_key_option(options, table.name):
            what = f"{table.name} has no primary key: its events have no key"
            yield Finding(what, f"ALTER TABLE {table.quoted} ADD PRIMARY KEY (…); or set `message.key.columns`")
    signals = options.get("signal.data.collection")
    if signals and signals not in [table.name for table in tables]:
        columns = "id varchar(64) PRIMARY KEY, type varchar(32) NOT NULL, data varchar(2048)"
        what = f"there is no signal table {signals}: snapshots on request fail"
        quoted = ".".join(_quote_name(part) for part in signals.split(".", 1))
        yield Finding(what, f"CREATE TABLE {quoted} ({columns});", is_warning=True)


def _check_binlog(settings: Mapping[str, str], options: Options) -> Iterator[Finding]:
    if settings.get("log_bin") != "ON":
        yield Finding("the server writes no binary log", "add `log_bin` to its configuration, and restart it")
    for name, needed in _NEEDED.items():
        value = settings.get(name, needed)
        if value.upper() != needed:
            what = f"{name} is {value}: rows in events lack values"
            yield Finding(what, f"SET GLOBAL {name} = '{needed}';", is_warning=value.upper() == "NOBLOB")
    if "server_id" in settings and settings["server_id"] == options.get("database.server.id"):
        yield Finding("the server has the id of the connector", "set another `database.server.id`")
    if settings.get("gtid_mode", "ON").upper() != "ON":  # MariaDB has no such setting and always has GTIDs
        what = f"gtid_mode is {settings['gtid_mode']}: after a failover the connector does not find its position"
        yield Finding(what, "SET GLOBAL gtid_mode = ON; with the steps of MySQL's manual", is_warning=True)


def _check_log_filters(
    query: Query, settings: Mapping[str, str], grants: MysqlGrants, databases: Iterable[str]
) -> Iterator[Finding]:
    """Yield the databases whose changes the server does not log."""
    if not any(grants.has(name) for name in _LOG_STATUS):
        return
    version = settings.get("version", "")
    is_new = "MariaDB" not in version and _read_version(version) >= _BINARY_LOG_STATUS
    (status,) = query(f"show {'binary log' if is_new else 'master'} status") or [("", 0, "", "")]
    fold = str.lower if settings.get("lower_case_table_names", "0") != "0" else str
    included, ignored = ({*map(str.strip, fold(str(names)).split(","))} - {""} for names in status[2:4])
    for database in databases:
        # The server tests `binlog_ignore_db` only without `binlog_do_db`.
        if included and fold(database) not in included:
            fix = f"add `binlog_do_db = {database}` to its configuration, or remove all `binlog_do_db`, and restart it"
            yield Finding(f"the server logs no changes of the database {database}, because of `binlog_do_db`", fix)
        elif not included and fold(database) in ignored:
            fix = f"remove `binlog_ignore_db = {database}` from its configuration, and restart it"
            yield Finding(f"the server logs no changes of the database {database}", fix)


def _read_version(text: str) -> tuple[int, ...]:
    found = re.match(r"(\d+)\.(\d+)", text)
    return tuple(map(int, found.groups())) if found else (0,)


def _check_retention(settings: Mapping[str, str]) -> Iterator[Finding]:
    seconds = float(settings.get("binlog_expire_logs_seconds", 0)) or float(settings.get("expire_logs_days", 0)) * 86400
    if 0 < seconds < _RETENTION_DAYS * 86400:
        what = (
            f"the server deletes its binary log after {seconds / 3600:g} hours, also if the connector did not read it"
        )
        name, value = "binlog_expire_logs_seconds", _RETENTION_DAYS * 86400
        if name not in settings:
            name, value = "expire_logs_days", _RETENTION_DAYS
        yield Finding(what, f"SET GLOBAL {name} = {value};", is_warning=True)


def _check_log_access(grants: MysqlGrants, user: str) -> Iterator[Finding]:
    needed = {"REPLICATION SLAVE": ("REPLICATION SLAVE",), "REPLICATION CLIENT": _LOG_STATUS}
    missing = [name for name, names in needed.items() if not any(grants.has(one) for one in names)]
    if missing:
        statement = f"GRANT {', '.join(missing)} ON *.* TO {_quote_user(user)};"
        yield Finding(f"the user {user} must not read the binary log", statement)


def _check_locks(
    grants: MysqlGrants, user: str, captured: list[_Table], settings: Mapping[str, str], options: Options
) -> Iterator[Finding]:
    """Yield the privileges that a snapshot lacks to lock the tables."""
    locking = options.get("snapshot.locking.mode", "minimal").lower()
    if options.get("snapshot.mode", "initial").lower() == "never" or locking == "none":
        return
    missing = [] if grants.has("RELOAD") or grants.has("FLUSH_TABLES") else ["RELOAD"]
    if settings.get("basedir", "").startswith(_RDS):
        missing += ["LOCK TABLES"] * any(not grants.has("LOCK TABLES", table.database) for table in captured)
    if missing:
        statement = (
            f"GRANT {', '.join(missing)} ON *.* TO {_quote_user(user)}; or set `snapshot.locking.mode` to `none`"
        )
        yield Finding(f"the user {user} must not lock tables for the snapshot", statement)


def _quote_name(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _quote_user(user: str) -> str:
    name, _, host = user.rpartition("@")
    return "@".join("'" + part.replace("\\", "\\\\").replace("'", "''") + "'" for part in (name, host))
