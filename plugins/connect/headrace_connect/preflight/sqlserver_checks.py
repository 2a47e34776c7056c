"""Checks of SQL Server: change data capture of databases and tables, its jobs, capture instances and privileges.

The tests have no SQL Server: the statements were not run against one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import count
from typing import Any, NamedTuple

from headrace_connect.preflight.findings import (
    Finding,
    choose_tables,
    find_missing_tables,
    has_key_option,
    is_captured_column,
    list_items,
)
from headrace_connect.preflight.tds_encryption import read_driver_option

Options = Mapping[str, str]
Query = Callable[[str], list[tuple[Any, ...]]]

#: Minutes of changes that cover an outage over a weekend. SQL Server's own default.
_RETENTION = 3 * 24 * 60
#: Minutes after which the capture job is late. It also records its progress in a database without changes.
_LATEST_SCAN = 60
#: Limit of SQL Server for the capture instances of a table.
_MOST_INSTANCES = 2
#: Azure SQL Database and Azure SQL Managed Instance do not show the service of SQL Server Agent.
_AZURE_EDITIONS = (5, 8)
_RUNNING = 4
_SIGNAL_COLUMNS = "id varchar(64) PRIMARY KEY, type varchar(32) NOT NULL, data varchar(2048)"

_SERVER = """
SELECT CAST(SERVERPROPERTY('EngineEdition') AS int), SUSER_SNAME(), HAS_PERMS_BY_NAME(NULL, NULL, N'VIEW SERVER STATE')"""
_AGENT = """
SELECT servicename, status, status_desc FROM sys.dm_server_services WHERE servicename LIKE N'SQL Server Agent (%'"""
_DATABASE = """
SELECT name, state_desc, HAS_DBACCESS(name), is_cdc_enabled, is_published, snapshot_isolation_state,
  CAST(DATABASEPROPERTYEX(name, 'Updateability') AS nvarchar(20)), DB_ID(N'rdsadmin') FROM sys.databases WHERE name = """
_USER = "SELECT USER_NAME(), IS_ROLEMEMBER(N'db_owner'), HAS_PERMS_BY_NAME(N'cdc', N'SCHEMA', N'SELECT')"
_TABLES = """
SELECT s.name, t.name, t.is_tracked_by_cdc,
  HAS_PERMS_BY_NAME(QUOTENAME(s.name) + N'.' + QUOTENAME(t.name), N'OBJECT', N'SELECT'),
  (SELECT COUNT(*) FROM sys.indexes i WHERE i.object_id = t.object_id AND i.is_unique = 1)
FROM sys.tables t JOIN sys.schemas s ON s.schema_id = t.schema_id
WHERE t.is_ms_shipped = 0 AND s.name <> N'cdc' ORDER BY s.name, t.name"""
_INSTANCES = """
SELECT OBJECT_SCHEMA_NAME(c.source_object_id), OBJECT_NAME(c.source_object_id), c.capture_instance, c.role_name,
  IS_ROLEMEMBER(c.role_name) FROM cdc.change_tables c ORDER BY c.start_lsn, c.create_date"""
_COLUMNS = """
SELECT c.capture_instance, n.name FROM cdc.change_tables c JOIN sys.columns n ON n.object_id = c.source_object_id
WHERE NOT EXISTS (SELECT 1 FROM cdc.captured_columns k WHERE k.object_id = c.object_id AND k.column_name = n.name)
ORDER BY c.object_id, n.column_id"""
_SCAN = "SELECT DATEDIFF(minute, sys.fn_cdc_map_lsn_to_time(sys.fn_cdc_get_max_lsn()), GETDATE())"


class _Database(NamedTuple):
    """Row of sys.databases."""

    name: str
    state: str
    has_access: bool
    is_enabled: bool
    is_published: bool
    snapshot_isolation: int
    updateability: str
    rds_id: int | None

    @property
    def use(self) -> str:
        """Start of a statement for the database."""
        return f"USE {_quote_name(self.name)}; "

    @property
    def is_open(self) -> bool:
        return self.state == "ONLINE" and bool(self.has_access)


class _User(NamedTuple):
    """User of a database."""

    name: str
    is_owner: bool | None
    may_read_changes: bool | None


class _Table(NamedTuple):
    """Table; ``keys``: the number of its unique indexes."""

    schema: str
    name: str
    is_tracked: bool
    may_read: bool
    keys: int

    @property
    def path(self) -> str:
        return f"{self.schema}.{self.name}"

    @property
    def quoted(self) -> str:
        return f"{_quote_name(self.schema)}.{_quote_name(self.name)}"


class _Instance(NamedTuple):
    """Capture instance of a table, and the role that gates it."""

    schema: str
    table: str
    name: str
    role: str | None
    is_member: bool | None

    @property
    def path(self) -> str:
        return f"{self.schema}.{self.table}"


def check_sqlserver(query: Query, options: Options) -> Iterator[Finding]:
    """Yield the findings about the databases of a server. ``options``: the connector's configuration."""
    ((edition, login, may_see_services),) = query(_SERVER)
    if edition not in _AZURE_EDITIONS:
        yield from _check_agent(query, login, may_see=bool(may_see_services))
    names = list_items(options, "database.names")
    if not names:
        yield Finding("the connector has no database", "set `database.names`")
    paths: set[str] = set()
    for name in names:
        rows = query(_DATABASE + _quote_text(name))
        if not rows:
            yield Finding(f"there is no database {name}", "correct `database.names`, or create the database")
            continue
        database = _Database(*rows[0])
        yield from _check_settings(database, login, options)
        if database.is_open:
            query(database.use)
            tables = [_Table(*row) for row in query(_TABLES)]
            paths |= {table.path for table in tables}
            yield from _check_capture(query, database, tables, options)
    # A login sees only tables on which it has a privilege.
    fix = "correct `table.include.list`, create the table, or GRANT SELECT on it"
    yield from find_missing_tables(options, paths, fix=fix)
    signals = options.get("signal.data.collection")
    if signals and not any(signals.startswith(f"{name}.") for name in names):
        what = f"the signal table {signals} is in no database of `database.names`: snapshots on request fail"
        yield Finding(what, "set `signal.data.collection` to DATABASE.SCHEMA.TABLE", is_warning=True)


def is_read_only(options: Options) -> bool:
    """Return whether the connector reads from a replica. It accepts one spelling."""
    return read_driver_option(options, "applicationIntent", "") == "ReadOnly"


def _check_agent(query: Query, login: str, *, may_see: bool) -> Iterator[Finding]:
    if not may_see:
        what = f"the login {login} must not see whether SQL Server Agent runs, which captures the changes"
        yield Finding(what, f"USE master; GRANT VIEW SERVER STATE TO {_quote_name(login)};", is_warning=True)
        return
    for service, status, description in query(_AGENT):
        if status != _RUNNING:
            yield Finding(f"the service {service} is {description}: it captures no changes", "start the service")


def _check_settings(database: _Database, login: str, options: Options) -> Iterator[Finding]:
    name, quoted = database.name, _quote_name(database.name)
    if database.state != "ONLINE":
        yield Finding(f"the database {name} is {database.state}", f"ALTER DATABASE {quoted} SET ONLINE;")
    elif not database.has_access:
        statement = f"{database.use}CREATE USER {_quote_name(login)} FOR LOGIN {_quote_name(login)};"
        yield Finding(f"the login {login} must not open the database {name}", statement)
    if not database.is_enabled:
        statement = f"{database.use}EXEC sys.sp_cdc_enable_db;"
        if database.rds_id is not None:  # Amazon RDS, where no login has the privileges for the procedure of SQL Server
            statement = f"EXEC msdb.dbo.rds_cdc_enable_db {_quote_text(name)};"
        yield Finding(f"change data capture of the database {name} is disabled", statement)
    if database.updateability == "READ_ONLY" and not is_read_only(options):
        what = f"the database {name} is a read-only replica: the connector reads no later changes from it"
        yield Finding(what, "set `driver.applicationIntent: ReadOnly`")
    # The connector takes the mode `snapshot` on a replica.
    mode = "snapshot" if is_read_only(options) else options.get("snapshot.isolation.mode", "")
    if mode.lower() == "snapshot" and database.snapshot_isolation != 1:
        statement = f"ALTER DATABASE {quoted} SET ALLOW_SNAPSHOT_ISOLATION ON;"
        yield Finding(f"the database {name} does not allow snapshot isolation: snapshots fail", statement)


def _check_capture(query: Query, database: _Database, tables: list[_Table], options: Options) -> Iterator[Finding]:
    """Yield the findings about the jobs and the tables of a database."""
    user = _User(*query(_USER)[0])
    if database.is_enabled:
        if any(table.is_tracked for table in tables):
            yield from _check_scan(query, database)
        yield from _check_jobs(query, database, user)
        if not user.may_read_changes:
            statement = f"{database.use}GRANT SELECT ON SCHEMA::cdc TO {_quote_name(user.name)};"
            yield Finding(f"the user {user.name} must not read the changes of the database {database.name}", statement)
    has_instances = bool(database.is_enabled and user.may_read_changes)
    instances = [_Instance(*row) for row in query(_INSTANCES)] if has_instances else []
    missing: dict[str, list[str]] = {}
    for instance, column in query(_COLUMNS) if has_instances else ():
        missing.setdefault(instance, []).append(column)
    # The option names the database, too; the names of tables do not.
    signals = options.get("signal.data.collection", "").removeprefix(f"{database.name}.")
    captured = choose_tables({**options, "signal.data.collection": signals}, [table.path for table in tables])
    for table in tables:
        if table.path in captured:
            yield from _check_table(database, table, user, options)
            own = [instance for instance in instances if instance.path == table.path]
            yield from _check_instances(database, table, own, missing, options)
            yield from _check_roles(database, own, user, options)
    yield from _check_signals(database, tables, options)


def _check_scan(query: Query, database: _Database) -> Iterator[Finding]:
    ((minutes,),) = query(_SCAN)
    statement = f"{database.use}EXEC sys.sp_cdc_start_job @job_type = N'capture';"
    if minutes is None:
        yield Finding(f"the capture job of the database {database.name} has not run: there are no changes", statement)
    elif minutes > _LATEST_SCAN:
        what = f"the capture job of the database {database.name} has not read the log for {minutes} minutes"
        yield Finding(what, statement, is_warning=True)


def _check_jobs(query: Query, database: _Database, user: _User) -> Iterator[Finding]:
    if not user.is_owner:
        what = f"only members of db_owner see the retention of changes in the database {database.name}"
        statement = f"{database.use}EXEC sys.sp_cdc_help_jobs; as a member: `retention` is at least {_RETENTION}"
        yield Finding(what, statement, is_warning=True)
        return
    # job_id, job_type, job_name, maxtrans, maxscans, continuous, pollinginterval, retention, threshold
    retentions = {str(row[1]): row[7] for row in query("EXEC sys.sp_cdc_help_jobs")}
    # The log reader of a publisher captures the changes without the job.
    if "capture" not in retentions and not database.is_published:
        what = f"the database {database.name} has no capture job: no changes are captured"
        yield Finding(what, f"{database.use}EXEC sys.sp_cdc_add_job @job_type = N'capture';")
    minutes = retentions.get("cleanup")
    if minutes is not None and minutes < _RETENTION:
        what = (
            f"the database {database.name} deletes changes after {minutes / 60:g} hours, "
            "also if the connector did not read them"
        )
        statement = f"{database.use}EXEC sys.sp_cdc_change_job @job_type = N'cleanup', @retention = {_RETENTION};"
        yield Finding(what, statement, is_warning=True)


def _check_table(database: _Database, table: _Table, user: _User, options: Options) -> Iterator[Finding]:
    path = f"{database.name}.{table.path}"
    # Without the list, the connector takes the tables that have a capture instance.
    is_named = bool(list_items(options, "table.include.list"))
    if not table.is_tracked:
        what = f"{path} has no capture instance: its changes are not captured"
        yield Finding(what, database.use + _enable(table), is_warning=not is_named)
        if not is_named:
            return
    if not table.may_read:
        statement = f"{database.use}GRANT SELECT ON {table.quoted} TO {_quote_name(user.name)};"
        yield Finding(f"the user {user.name} must not read {path}", statement)
    if not table.keys and not has_key_option(options, table.path, path):
        what = f"{path} has neither a primary key nor a unique index: its events have no key"
        statement = f"{database.use}ALTER TABLE {table.quoted} ADD PRIMARY KEY (…); or set `message.key.columns`"
        yield Finding(what, statement)


def _check_instances(
    database: _Database, table: _Table, instances: list[_Instance], missing: Mapping[str, list[str]], options: Options
) -> Iterator[Finding]:
    """Yield the findings about the capture instances of a table, the oldest one first."""
    if not instances:
        return
    path = f"{database.name}.{table.path}"
    newest = instances[-1]
    columns = [name for name in missing.get(newest.name, ()) if is_captured_column(options, f"{table.path}.{name}")]
    remove = _disable(table, instances[0]) if len(instances) >= _MOST_INSTANCES else ""
    if columns:
        names = (f"{table.schema}_{table.name}_v{number}" for number in count(2))
        name = next(name for name in names if name not in {instance.name for instance in instances})
        what = f"the capture instance {newest.name} of {path} lacks {', '.join(columns)}: their values are not captured"
        add = _enable(table, name, newest.role)
        statement = f"{database.use}{remove}{' ' if remove else ''}{add} or name the columns in `column.exclude.list`"
        yield Finding(what, statement)
    elif remove:
        what = f"{path} has {len(instances)} capture instances: a new column cannot get one"
        statement = f"{database.use}{remove} after the connector reads {newest.name}"
        yield Finding(what, statement, is_warning=True)


def _check_roles(database: _Database, instances: list[_Instance], user: _User, options: Options) -> Iterator[Finding]:
    """Yield the roles that gate the functions of change data capture; the connector calls them in one mode only."""
    if options.get("data.query.mode", "direct").lower() != "function" or user.is_owner:
        return
    for instance in instances:
        if instance.role and not instance.is_member:
            what = f"the user {user.name} is no member of {instance.role}, which reads the changes of {instance.name}"
            statement = f"ALTER ROLE {_quote_name(instance.role)} ADD MEMBER {_quote_name(user.name)};"
            yield Finding(what, database.use + statement)


def _check_signals(database: _Database, tables: list[_Table], options: Options) -> Iterator[Finding]:
    outer, _, path = options.get("signal.data.collection", "").partition(".")
    if outer != database.name or not path:
        return
    table = next((table for table in tables if table.path == path), None)
    if table is None:
        schema, _, name = path.partition(".")
        table = _Table(schema, name, is_tracked=False, may_read=True, keys=1)
        statement = f"{database.use}CREATE TABLE {table.quoted} ({_SIGNAL_COLUMNS}); {_enable(table)}"
        yield Finding(f"there is no signal table {outer}.{path}: snapshots on request fail", statement, is_warning=True)
    elif not table.is_tracked:
        what = f"the signal table {outer}.{path} has no capture instance: snapshots on request do not start"
        yield Finding(what, database.use + _enable(table), is_warning=True)


def _enable(table: _Table, instance: str | None = None, role: str | None = None) -> str:
    """Return the statement that creates a capture instance; without ``instance``, SQL Server names it."""
    parameters = [f"@source_schema = {_quote_text(table.schema)}", f"@source_name = {_quote_text(table.name)}"]
    parameters += [f"@capture_instance = {_quote_text(instance)}"] if instance else []
    parameters.append(f"@role_name = {_quote_text(role) if role else 'NULL'}")
    return f"EXEC sys.sp_cdc_enable_table {', '.join(parameters)};"


def _disable(table: _Table, instance: _Instance) -> str:
    parameters = f"@source_schema = {_quote_text(table.schema)}, @source_name = {_quote_text(table.name)}"
    return f"EXEC sys.sp_cdc_disable_table {parameters}, @capture_instance = {_quote_text(instance.name)};"


def _quote_name(name: str) -> str:
    return "[" + name.replace("]", "]]") + "]"


def _quote_text(text: str) -> str:
    return "N'" + text.replace("'", "''") + "'"
