"""Supported statements: those of mssql-jdbc, of Debezium's connector and of `headrace check --source`, and no others.

Regular expressions recognize the statements. There is no SQL parser.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from headrace_stack.sqlserver import metadata
from headrace_stack.sqlserver.changes import Lsn, increment
from headrace_stack.sqlserver.database import SCHEMA, CapturedDatabase, CapturedTable
from headrace_stack.sqlserver.declarations import type_of
from headrace_stack.sqlserver.results import Result
from headrace_stack.sqlserver.sql_types import Refused, SqlType, Value
from headrace_stack.sqlserver.text_types import Binary, Name, RowVersion, Text

VERSION = "Microsoft SQL Server 2022 - 16.0 [NOT A SERVER: headrace's stand-in for tests]"

_INT, _NAME, _LSN, _MASK = type_of("int"), Name(), type_of("binary", "10"), type_of("varbinary", "128")
_COMMITTED = type_of("datetimeoffset", "3")
_LITERAL_TIMES = ("date", "time", "datetime", "smalldatetime", "datetime2", "datetimeoffset")


class Statement(NamedTuple):
    """Recognized statement."""

    words: re.Match[str]
    parameters: Sequence[Any]
    database: CapturedDatabase


_Handler = Callable[[Statement], Result]
#: Ignored statements: isolation, locks and transactions.
_IGNORED = ("set ", "use ", "if @@trancount", "exec sp_unprepare", "exec sp_cursorunprepare")
_KNOWN: list[tuple[re.Pattern[str], _Handler]] = []


def answer(statement: str, parameters: Sequence[Any], database: CapturedDatabase) -> Result | None:
    """Return the result of a statement; None for a statement without rows. Refused for an unknown statement."""
    # Driver and connector qualify all names with the only database.
    text = " ".join(statement.split()).replace(f"[{database.name}].", "")
    if text.lower().startswith(_IGNORED):
        return None
    if (fixed := _FIXED.get(text.lower())) is not None:
        return fixed
    if text.lower() == "select sysdatetimeoffset()":
        return _single_value(type_of("datetimeoffset"), _format_time(datetime.now(UTC)))
    for pattern, handler in _KNOWN:
        if words := pattern.match(text):
            return handler(Statement(words, parameters, database))
    raise Refused(f"this stand-in for SQL Server does not support the statement: {text}")


def _single_value(kind: SqlType, value: Value, name: str = "") -> Result:
    return Result([(name, kind)], [[value]])


#: Statement → constant result.
_FIXED = {
    "select @@version": _single_value(Text("nvarchar", 300), VERSION),
    "select cast(serverproperty('engineedition') as int)": _single_value(_INT, 3),
    "select 1": _single_value(_INT, 1),
    "exec sys.sp_cdc_help_jobs": metadata.jobs(),
    # The last scan of the log found no change.
    "select top 1 start_lsn from sys.dm_cdc_log_scan_sessions order by session_id desc": _single_value(
        Text("nvarchar", 23), "00000000:00000000:0000\0", "start_lsn"
    ),
}


def _answers(pattern: str) -> Callable[[_Handler], _Handler]:
    def register(handler: _Handler) -> _Handler:
        _KNOWN.append((re.compile(pattern, re.IGNORECASE), handler))
        return handler

    return register


@_answers(r"select parse\( ?@p0 as (\w+)\)$")
def _parse_default(question: Statement) -> Result:
    """Parse the default of a column for the connector."""
    name, text = question.words[1].lower(), question.parameters[0]
    if name not in _LITERAL_TIMES:
        raise Refused(f"this stand-in for SQL Server does not parse {name}")
    kind = type_of(name)
    try:
        return _single_value(kind, kind.keep(text))
    except Refused:
        raise Refused(f"Error converting string value '{text}' into data type {name} using culture ''.", 9819) from None


@_answers(r"select name from sys\.databases where name = @p0$")
def _database(question: Statement) -> Result:
    own = question.database.name
    return Result([("name", _NAME)], [[own]] if question.parameters[0] == own else [])


@_answers(r"exec sp_tables ")
def _tables(question: Statement) -> Result:
    return metadata.tables(question.database, question.parameters[0])


@_answers(r"declare @mssqljdbc_temp_sp_columns_result ")
def _columns(question: Statement) -> Result:
    return metadata.columns(question.database, question.parameters[0])


@_answers(r"exec sp_pkeys ")
def _keys(question: Statement) -> Result:
    return metadata.keys(question.database, question.parameters[0])


@_answers(r"exec sp_statistics(?:_100)? ")
def _indexes(question: Statement) -> Result:
    return metadata.indexes(question.database, question.parameters[0])


@_answers(r"exec sys\.sp_cdc_help_change_data_capture$")
def _capture_instances(question: Statement) -> Result:
    rows: list[list[Value]] = [[SCHEMA, i.table, i.name] for i in question.database.instances]
    return Result([("source_schema", _NAME), ("source_table", _NAME), ("capture_instance", _NAME)], rows)


@_answers(r"select count\(\*\) from cdc\.change_tables$")
def _count(question: Statement) -> Result:
    return _single_value(_INT, len(question.database.instances))


@_answers(r"select min\(start_lsn\) from cdc\.change_tables$")
def _first_start(question: Statement) -> Result:
    return _single_value(_LSN, min((i.start for i in question.database.instances), default=None))


@_answers(r"select sys\.fn_cdc_get_max_lsn\(\)$")
def _last_lsn(question: Statement) -> Result:
    return _single_value(_LSN, question.database.last)


@_answers(r"select sys\.fn_cdc_get_min_lsn\( ?@p0 ?\)$")
def _first_lsn(question: Statement) -> Result:
    return _single_value(_LSN, question.database.instance(question.parameters[0]).start)


@_answers(r"select sys\.fn_cdc_increment_lsn\( ?@p0 ?\)$")
def _next_lsn(question: Statement) -> Result:
    return _single_value(_LSN, increment(question.parameters[0]))


@_answers(r"select max\(start_lsn\) from cdc\.lsn_time_mapping where tran_id <> 0x00$")
def _last_commit(question: Statement) -> Result:
    return _single_value(_LSN, max(_transactions(question), default=None))


@_answers(r"select max\(start_lsn\) from \(select top \( ?@p0 ?\) start_lsn from cdc\.lsn_time_mapping where ")
def _nth_commit(question: Statement) -> Result:
    return _single_value(_LSN, max(_transactions(question)[: question.parameters[0]], default=None))


@_answers(
    r"select max\(start_lsn\) from \(select top \( ?@p0 \+ 1\) start_lsn from cdc\.lsn_time_mapping where start_lsn >= "
)
def _nth_commit_after(question: Statement) -> Result:
    most, first = question.parameters
    later = [lsn for lsn in _transactions(question) if lsn >= first]
    return _single_value(_LSN, max(later[: most + 1], default=None))


def _transactions(question: Statement) -> list[Lsn]:
    return [commit.lsn for commit in question.database.commits if commit.has_changes]


@_answers(r"select object_id, column_name from cdc\.captured_columns order by ")
@_answers(r"select tables\.object_id, columns\.name from sys\.columns columns ")
def _columns_of_captures(question: Statement) -> Result:
    rows: list[list[Value]] = [[i.object_id, c.name] for i in question.database.instances for c in i.columns]
    return Result([("object_id", _INT), ("column_name", _NAME)], rows)


@_answers(r"with ordered_change_tables as \(.* as ct( where ct\.start_lsn <= @p0 )?\) select ")
def _change_tables(question: Statement) -> Result:
    instances = question.database.instances
    if question.words[1]:
        instances = [i for i in instances if i.start <= question.parameters[0]]
    columns = [("", _NAME), ("", _NAME), ("capture_instance", _NAME), ("object_id", _INT), ("start_lsn", _LSN)]
    return Result(columns, [[SCHEMA, i.table, i.name, i.object_id, i.start] for i in instances])


@_answers(r"select \* from cdc\.change_tables where start_lsn between @p0 and @p1$")
def _new_change_tables(question: Statement) -> Result:
    """Return new capture instances; the connector reads columns 4 and 5."""
    first, last = question.parameters
    columns = [("object_id", _INT), ("version", _INT), ("source_object_id", _INT), ("capture_instance", _NAME)]
    columns += [("start_lsn", _LSN), ("end_lsn", _LSN)]
    new = [i for i in question.database.instances if first <= i.start <= last]
    return Result(columns, [[i.object_id, 0, i.object_id, i.name, i.start, None] for i in new])


@_answers(
    r"select (?:top (?P<most>\d+) )?cdc_data\.\[__\$start_lsn\], cdc_data\.\[__\$seqval\], cdc_data\.\[__\$operation\], "
    r"cdc_data\.\[__\$update_mask\], (?P<columns>\[.*\]), todatetimeoffset\(ltm\.tran_begin_time, .*\) "
    r"from cdc\.\[(?P<instance>[^]]+)_CT\] as cdc_data left join cdc\.lsn_time_mapping .* order by "
)
def _changes(question: Statement) -> Result:
    """Return the rows of a change table after a position up to a commit."""
    instance = question.database.instance(question.words["instance"])
    lsn, sequence, operation, _, _, _, last = question.parameters
    places = {column.name: place for place, column in enumerate(instance.columns)}
    wanted = _names(question.words["columns"])
    columns = [("__$start_lsn", _LSN), ("__$seqval", _LSN), ("__$operation", _INT), ("__$update_mask", _MASK)]
    for name in wanted:
        kind = instance.columns[places[name]].type
        columns.append((name, Binary("binary", 8) if isinstance(kind, RowVersion) else kind))
    changes = instance.between(lsn, sequence, operation, last)
    rows: list[list[Value]] = [
        [
            *(change.commit.lsn, change.sequence, change.operation, change.mask),
            *(change.values[places[name]] for name in wanted),
            _COMMITTED.keep(_format_time(change.commit.at)),
        ]
        for change in changes[: int(question.words["most"] or len(changes))]
    ]
    return Result([*columns, ("", _COMMITTED)], rows, instance.table)


@_answers(
    r"select (?P<lock>top ?\(0\) )?(?P<columns>\*|\[.*\]) from \[dbo\]\.\[(?P<table>[^]]+)\](?: with \(tablockx\))?$"
)
def _rows(question: Statement) -> Result:
    """Return the rows of a table for the snapshot, or an empty result for a lock."""
    table = question.database.table(question.words["table"])
    columns = question.words["columns"]
    places = [table.place(n) for n in _names(columns)] if columns != "*" else list(range(len(table.columns)))
    kinds = [(table.columns[place].name, table.columns[place].type) for place in places]
    rows = [] if question.words["lock"] else [[row[place] for place in places] for row in _sort_rows(table)]
    return Result(kinds, rows, table.name)


def _sort_rows(table: CapturedTable) -> list[list[Value]]:
    return sorted(table.rows, key=table.key_of)


def _names(columns: str) -> list[str]:
    return re.findall(r"\[([^]]+)\]", columns)


def _format_time(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M:%S.%f} +00:00"


# Statements of `headrace check --source`: each database and table is ready, and the only user is the owner.


@_answers(r"select cast\(serverproperty\('engineedition'\) as int\), suser_sname\(\), ")
def _server(_: Statement) -> Result:
    return Result([("", _INT), ("", _NAME), ("", _INT)], [[3, "sa", 1]])


@_answers(r"select servicename, status, status_desc from sys\.dm_server_services ")
def _services(_: Statement) -> Result:
    columns = [("servicename", _NAME), ("status", _INT), ("status_desc", _NAME)]
    return Result(columns, [["SQL Server Agent (MSSQLSERVER)", 4, "Running"]])


@_answers(r"select name, state_desc, .* from sys\.databases where name = n'(?P<name>.*)'$")
def _state(question: Statement) -> Result:
    own = question.database.name
    columns = [("name", _NAME), ("state_desc", _NAME), ("", _INT), ("is_cdc_enabled", _INT), ("is_published", _INT)]
    columns += [("snapshot_isolation_state", _INT), ("", _NAME), ("", _INT)]
    row: list[Value] = [own, "ONLINE", 1, 1, 0, 0, "READ_WRITE", None]
    return Result(columns, [row] if question.words["name"] == own else [])


@_answers(r"select user_name\(\), is_rolemember\(n'db_owner'\), ")
def _user(_: Statement) -> Result:
    return Result([("", _NAME), ("", _INT), ("", _INT)], [["dbo", 1, 1]])


@_answers(r"select s\.name, t\.name, t\.is_tracked_by_cdc, .* from sys\.tables t ")
def _tracked_tables(question: Statement) -> Result:
    columns = [("name", _NAME), ("name", _NAME), ("is_tracked_by_cdc", _INT), ("", _INT), ("", _INT)]
    return Result(columns, [[SCHEMA, t.name, 1, 1, int(bool(t.key))] for t in question.database.tables.values()])


@_answers(r"select object_schema_name\(c\.source_object_id\), .* from cdc\.change_tables c ")
def _gated_instances(question: Statement) -> Result:
    columns = [("", _NAME), ("", _NAME), ("capture_instance", _NAME), ("role_name", _NAME), ("", _INT)]
    return Result(columns, [[SCHEMA, i.table, i.name, None, None] for i in question.database.instances])


@_answers(r"select c\.capture_instance, n\.name from cdc\.change_tables c ")
def _columns_outside_of_captures(question: Statement) -> Result:
    rows: list[list[Value]] = [
        [instance.name, column.name]
        for instance in question.database.instances
        for column in question.database.table(instance.table).columns
        if column not in instance.columns
    ]
    return Result([("capture_instance", _NAME), ("name", _NAME)], rows)


@_answers(r"select datediff\(minute, sys\.fn_cdc_map_lsn_to_time\(sys\.fn_cdc_get_max_lsn\(\)\), getdate\(\)\)$")
def _minutes_since_scan(_: Statement) -> Result:
    return _single_value(_INT, 0)
