"""Results of sp_tables, sp_columns_100, sp_pkeys, sp_statistics_100 and sp_cdc_help_jobs, written from their documentation."""

from __future__ import annotations

import re

from headrace_stack.sqlserver.database import SCHEMA, CapturedDatabase, CapturedTable
from headrace_stack.sqlserver.declarations import type_of
from headrace_stack.sqlserver.results import Result
from headrace_stack.sqlserver.sql_types import SqlType, Value
from headrace_stack.sqlserver.text_types import Name, Text

_NAME, _TEXT, _LONG = Name(), Text("varchar", 254), Text("nvarchar", 4000)
_INT, _SMALL, _TINY, _BIG = type_of("int"), type_of("smallint"), type_of("tinyint"), type_of("bigint")
#: Names in mssql-jdbc.
_COLUMNS: list[tuple[str, SqlType]] = [
    ("TABLE_CAT", _NAME),
    ("TABLE_SCHEM", _NAME),
    ("TABLE_NAME", _NAME),
    ("COLUMN_NAME", _NAME),
    ("DATA_TYPE", _SMALL),
    ("TYPE_NAME", _NAME),
    ("COLUMN_SIZE", _INT),
    ("BUFFER_LENGTH", _INT),
    ("DECIMAL_DIGITS", _SMALL),
    ("NUM_PREC_RADIX", _SMALL),
    ("NULLABLE", _SMALL),
    ("REMARKS", _TEXT),
    ("COLUMN_DEF", _LONG),
    ("SQL_DATA_TYPE", _SMALL),
    ("SQL_DATETIME_SUB", _SMALL),
    ("CHAR_OCTET_LENGTH", _INT),
    ("ORDINAL_POSITION", _INT),
    ("IS_NULLABLE", _TEXT),
    ("SCOPE_CATALOG", _INT),
    ("SCOPE_SCHEMA", _INT),
    ("SCOPE_TABLE", _INT),
    ("SOURCE_DATA_TYPE", _TINY),
    ("IS_AUTOINCREMENT", _TEXT),
    ("IS_GENERATEDCOLUMN", _TEXT),
    ("SS_IS_SPARSE", _SMALL),
    ("SS_IS_COLUMN_SET", _SMALL),
    ("SS_UDT_CATALOG_NAME", _LONG),
    ("SS_UDT_SCHEMA_NAME", _LONG),
    ("SS_UDT_ASSEMBLY_TYPE_NAME", _LONG),
    ("SS_XML_SCHEMACOLLECTION_CATALOG_NAME", _LONG),
    ("SS_XML_SCHEMACOLLECTION_SCHEMA_NAME", _LONG),
    ("SS_XML_SCHEMACOLLECTION_NAME", _LONG),
]
_INDEXES: list[tuple[str, SqlType]] = [
    ("TABLE_QUALIFIER", _NAME),
    ("TABLE_OWNER", _NAME),
    ("TABLE_NAME", _NAME),
    ("NON_UNIQUE", _SMALL),
    ("INDEX_QUALIFIER", _NAME),
    ("INDEX_NAME", _NAME),
    ("TYPE", _SMALL),
    ("SEQ_IN_INDEX", _SMALL),
    ("COLUMN_NAME", _NAME),
    ("COLLATION", Text("char", 1)),
    ("CARDINALITY", _INT),
    ("PAGES", _INT),
    ("FILTER_CONDITION", _TEXT),
]


def tables(database: CapturedDatabase, pattern: str | None) -> Result:
    """sp_tables."""
    columns = [("TABLE_QUALIFIER", _NAME), ("TABLE_OWNER", _NAME), ("TABLE_NAME", _NAME)]
    rows: list[list[Value]] = [
        [database.name, SCHEMA, table.name, "TABLE", None] for table in _find_tables(database, pattern)
    ]
    return Result([*columns, ("TABLE_TYPE", _TEXT), ("REMARKS", _TEXT)], rows)


def columns(database: CapturedDatabase, pattern: str | None) -> Result:
    """Return the result of sp_columns_100, which the driver converts."""
    rows: list[list[Value]] = []
    for table in _find_tables(database, pattern):
        for number, column in enumerate(table.columns, 1):
            odbc, nullable = column.type.odbc(), column.nullable
            about: list[Value] = [database.name, SCHEMA, table.name, column.name, odbc.data_type, column.type.name]
            size: list[Value] = [
                odbc.precision,
                odbc.length,
                odbc.scale,
                odbc.radix,
                int(nullable),
                None,
                column.default_text,
            ]
            more: list[Value] = [
                odbc.sql_data_type,
                odbc.datetime_sub,
                odbc.octet_length,
                number,
                "YES" if nullable else "NO",
            ]
            rows.append([*about, *size, *more, None, None, None, odbc.ss_data_type, "NO", "NO", 0, 0, *[None] * 6])
    return Result(_COLUMNS, rows)


def keys(database: CapturedDatabase, pattern: str | None) -> Result:
    """sp_pkeys."""
    rows: list[list[Value]] = [
        [database.name, SCHEMA, table.name, name, number, _key_name(table)]
        for table in _find_tables(database, pattern)
        for number, name in enumerate(table.key, 1)
    ]
    names = ("TABLE_QUALIFIER", "TABLE_OWNER", "TABLE_NAME", "COLUMN_NAME", "KEY_SEQ", "PK_NAME")
    return Result([(name, _SMALL if name == "KEY_SEQ" else _NAME) for name in names], rows)


def indexes(database: CapturedDatabase, pattern: str | None) -> Result:
    """Return the result of sp_statistics_100: a row of the table, then the index of the primary key."""
    rows: list[list[Value]] = []
    for table in _find_tables(database, pattern):
        place: list[Value] = [database.name, SCHEMA, table.name]
        rows.append([*place, None, None, None, 0, None, None, None, len(table.rows), 1, None])
        for number, name in enumerate(table.key, 1):
            rows.append([*place, 0, table.name, _key_name(table), 1, number, name, "A", len(table.rows), 1, None])
    return Result(_INDEXES, rows)


def jobs() -> Result:
    """Return the result of sp_cdc_help_jobs: a capture job that scans each second, and SQL Server's default for the cleanup."""
    columns = [("job_id", type_of("uniqueidentifier")), ("job_type", _NAME), ("job_name", _NAME), ("maxtrans", _INT)]
    columns += [("maxscans", _INT), ("continuous", type_of("bit")), ("pollinginterval", _BIG)]
    capture: list[Value] = [None, "capture", "cdc.capture", 500, 10, 1, 1, 0, 0]
    cleanup: list[Value] = [None, "cleanup", "cdc.cleanup", 0, 0, 0, 0, 4320, 5000]
    return Result([*columns, ("retention", _BIG), ("threshold", _BIG)], [cleanup, capture])


def _key_name(table: CapturedTable) -> str:
    return f"PK__{table.name}"


def _find_tables(database: CapturedDatabase, pattern: str | None) -> list[CapturedTable]:
    """Find tables by a pattern; the driver escapes literal characters as ``[_]`` or with a backslash."""
    name = None if pattern is None else re.sub(r"\[(.)\]|\\(.)", lambda found: found[1] or found[2], pattern)
    return [table for table in database.tables.values() if name in {None, "%", table.name}]
