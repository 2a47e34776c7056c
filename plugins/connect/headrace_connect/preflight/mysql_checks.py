"""Checks of MySQL and MariaDB: the binary log, its retention, row images and privileges."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from headrace_connect.preflight.findings import Finding, choose_tables, find_missing_tables, has_key_option

Options = Mapping[str, str]
Query = Callable[[str], list[tuple[Any, ...]]]

#: Setting → the value that a connector needs. Without a value, an empty one.
_NEEDED = {"binlog_format": "ROW", "binlog_row_image": "FULL", "binlog_row_value_options": ""}
#: Days of the binary log that cover an outage over a weekend.
_RETENTION_DAYS = 3
_SYSTEM = "'mysql', 'information_schema', 'performance_schema', 'sys'"
_TABLES = f"""
select concat(t.table_schema, '.', t.table_name), exists (select 1 from information_schema.table_constraints c where
  c.table_schema = t.table_schema and c.table_name = t.table_name and c.constraint_type = 'PRIMARY KEY')
from information_schema.tables t where t.table_type = 'BASE TABLE' and t.table_schema not in ({_SYSTEM}) order by 1"""  # noqa: S608 - constants


def check_mysql(query: Query, options: Options) -> Iterator[Finding]:
    """Yield the findings about a server. ``options``: the connector's configuration."""
    settings = {str(name): str(value) for name, value in query("show global variables")}
    yield from _check_binlog(settings, options)
    yield from _check_retention(settings)
    yield from _check_grants(query)
    tables: dict[str, int] = dict(query(_TABLES))
    captured = choose_tables(options, tables)
    yield from find_missing_tables(options, captured)
    for table in captured:
        if not tables[table] and not has_key_option(options, table):
            what = f"{table} has no primary key: its events have no key"
            yield Finding(what, f"ALTER TABLE {table} ADD PRIMARY KEY (…); or set `message.key.columns`")
    signals = options.get("signal.data.collection")
    if signals and signals not in tables:
        columns = "id varchar(64) PRIMARY KEY, type varchar(32) NOT NULL, data varchar(2048)"
        what = f"there is no signal table {signals}: snapshots on request fail"
        yield Finding(what, f"CREATE TABLE {signals} ({columns});", is_warning=True)


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


def _check_grants(query: Query) -> Iterator[Finding]:
    granted = "\n".join(str(grant) for (grant,) in query("show grants")).upper()
    if "GRANT ALL PRIVILEGES ON *.*" in granted:
        return
    # Newer releases of MariaDB show REPLICATION CLIENT as BINLOG MONITOR.
    needed = {"REPLICATION SLAVE": "REPLICATION SLAVE", "REPLICATION CLIENT": "REPLICATION CLIENT|BINLOG MONITOR"}
    missing = [name for name, names in needed.items() if not any(one in granted for one in names.split("|"))]
    if missing:
        ((user,),) = query("select current_user()")
        quoted = "@".join(f"'{part}'" for part in str(user).split("@"))
        statement = f"GRANT {', '.join(missing)} ON *.* TO {quoted};"
        yield Finding(f"the user {user} must not read the binary log", statement)
