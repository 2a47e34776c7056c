"""Tables of the source ``jdbc``: their topics, columns and cursors."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from headrace.sdk import ConfigError, DataError
from headrace.sdk.changes import PREFIX
from headrace.sdk.columns import fold_name
from headrace.sdk.options import did_you_mean
from headrace_sources.jdbc.cursor_planner import CursorTable
from headrace_sources.jdbc.cursor_query import CursorQuery
from headrace_sources.jdbc.jdbc_config import JdbcConfig
from headrace_sources.jdbc.jdbc_database import DatabaseColumn, JdbcSession, TableName


@dataclass(frozen=True)
class JdbcTable:
    """Table, or the query."""

    topic: str
    cursor: CursorTable
    #: Columns of the primary key; empty without one.
    key: tuple[str, ...]
    #: Whether an index starts with the first column of the cursor; None if this is unknown.
    is_indexed: bool | None = None
    #: Why the table cannot be read: a ConfigError if the options do not fit it, a DataError for its columns. None if it can.
    error: ConfigError | DataError | None = None


def find_tables(config: JdbcConfig, session: JdbcSession) -> list[JdbcTable]:
    """Return the tables of the configuration, also those that the options do not fit. ConfigError if there are none."""
    if config.query is not None:
        return [_open_query(config, session, config.query)]
    known = session.list_tables(config.catalog, config.schema_pattern, config.table_types)
    chosen = omit_partitions(choose_tables(config, known), session.list_partitions())
    _check_topics(chosen)
    found = {table: session.list_columns(table) for table in chosen}
    # A table that was dropped meanwhile has no columns.
    return [_try_open_table(config, session, table, columns) for table, columns in found.items() if columns]


def choose_tables(config: JdbcConfig, known: Sequence[TableName]) -> list[TableName]:
    """Return the tables that the lists select. ConfigError for a name or a pattern without a table."""
    found = [table for table in known if not _matches(config.exclude, table)]
    if config.whitelist:
        names = {name: [t for t in known if name in (t.name, t.full_name)] for name in config.whitelist}
        for name, tables in names.items():
            if not tables:
                raise _explain_unknown("table.whitelist", name, known)
        selected = {table for tables in names.values() for table in tables}
        found = [table for table in found if table in selected]
    elif config.include:
        for pattern in config.include:
            if not any(_matches([pattern], table) for table in known):
                raise _explain_unknown("table.include.list", pattern, known)
        found = [table for table in found if _matches(config.include, table)]
    if not found:
        fix = "grant SELECT on the tables, or correct the lists, `schema.pattern` and `catalog.pattern`"
        raise ConfigError("the database has no table to read", where="source jdbc", fix=fix)
    return found


def omit_partitions(tables: Sequence[TableName], parents: Mapping[str, str]) -> list[TableName]:
    """Return the tables without the partitions of a chosen one, which has their rows. ``parents``: partition → table."""
    names = {table.full_name for table in tables}

    def is_in_chosen(name: str) -> bool:
        parent = parents.get(name)
        return parent is not None and (parent in names or is_in_chosen(parent))

    return [table for table in tables if not is_in_chosen(table.full_name)]


def check_names(names: Sequence[str], quote: str, where: str) -> None:
    """Raise DataError for columns of a table that cannot be read by their names. ``quote``: letter that encloses names."""
    counts = Counter(map(fold_name, names))
    for name in names:
        if quote in name:
            # Spark's reader encloses names without doubling the letter. The rest of such a name would run as SQL.
            what = f"the name of the column {name!r} contains {quote}, which ends names in SQL"
        elif counts[fold_name(name)] > 1:
            what = f"two columns have the name {name!r}, and tables do not distinguish upper and lower case"
        elif name.lower().startswith(PREFIX):
            what = f"the column name {name!r} is reserved: the prefix {PREFIX!r} belongs to headrace"
        else:
            continue
        fix = "rename the column, or give it another name with `query`: `SELECT … AS other_name`"
        raise DataError(what, where=where, fix=fix)


def _matches(patterns: Sequence[str], table: TableName) -> bool:
    return any(re.fullmatch(pattern, table.full_name) for pattern in patterns)


def _explain_unknown(option: str, name: str, known: Sequence[TableName]) -> ConfigError:
    names = [table.full_name for table in known]
    return ConfigError(
        f"no table matches {name!r}",
        where=f"source jdbc, {option}",
        fix=f"{did_you_mean(name, names)}; names have the form schema.table, or database.table in MariaDB and MySQL",
    )


def _check_topics(tables: Sequence[TableName]) -> None:
    names: dict[str, str] = {}
    for table in tables:
        other = names.setdefault(table.name, table.full_name)
        if other != table.full_name:
            raise ConfigError(
                f"{other} and {table.full_name} would have the same topic",
                where="source jdbc",
                fix="select one schema with `schema.pattern` or with the lists, and use a source for each schema",
            )


def _open_query(config: JdbcConfig, session: JdbcSession, query: str) -> JdbcTable:
    columns = session.list_query_columns(query)
    return _open(config, session, config.topic_prefix, "query", f"({query}\n) q", columns, ())


def _try_open_table(
    config: JdbcConfig, session: JdbcSession, table: TableName, columns: Sequence[DatabaseColumn]
) -> JdbcTable:
    try:
        return _open_table(config, session, table, columns)
    except (ConfigError, DataError) as error:
        cursor = CursorTable(table.full_name, CursorQuery(session.quote_table(table)))
        return JdbcTable(_name_topic(config, table), cursor, (), error=error)


def _name_topic(config: JdbcConfig, table: TableName) -> str:
    return f"{config.topic_prefix}{table.name}"


def _open_table(
    config: JdbcConfig, session: JdbcSession, table: TableName, columns: Sequence[DatabaseColumn]
) -> JdbcTable:
    key = session.list_key_columns(table)
    relation = session.quote_table(table)
    opened = _open(config, session, _name_topic(config, table), table.full_name, relation, columns, key)
    if not cursor_names(config):
        return opened
    is_indexed = cursor_names(config)[0] in session.list_leading_columns(table)
    return replace(opened, is_indexed=is_indexed)


def _open(
    config: JdbcConfig,
    session: JdbcSession,
    topic: str,
    name: str,
    relation: str,
    columns: Sequence[DatabaseColumn],
    key: Sequence[str],
) -> JdbcTable:
    check_names([column.name for column in columns], session.kind.quote, f"source jdbc, {name}")
    by_name = {column.name: column for column in columns}
    wanted = [*cursor_names(config), *([config.deleted_column] if config.deleted_column else [])]
    for column in wanted:
        if column not in by_name:
            where = f"source jdbc, {name}"
            raise ConfigError(f"no such column: {column!r}", where=where, fix=did_you_mean(column, by_name))
    _check_types(config, name, by_name)
    times = config.timestamp_columns
    zoned = {session.kind.find_text_type(by_name[column].type_name) == "timestamp" for column in times}
    if len(zoned) > 1:
        fix = "use one column, or columns of one type"
        raise ConfigError("only some timestamps have a time zone", where=f"source jdbc, {name}", fix=fix)
    expressions = [] if not times else [_coalesce([session.quote(column) for column in times])]
    if config.incrementing_column is not None:
        expressions.append(session.quote(config.incrementing_column))
    may_be_null = any(by_name[column].is_nullable for column in cursor_names(config))
    number = session.write_seconds(expressions[0]) if times else "".join(expressions)
    query = CursorQuery(relation, tuple(expressions), number)
    cursor = CursorTable(name, query, has_zone=zoned == {True}, may_be_null=may_be_null)
    return JdbcTable(topic, cursor, tuple(key))


def _check_types(config: JdbcConfig, name: str, columns: Mapping[str, DatabaseColumn]) -> None:
    """Raise ConfigError for a cursor that the database does not sort as numbers and times."""
    wrong = [(column, "time") for column in config.timestamp_columns if not columns[column].is_time]
    number = config.incrementing_column
    wrong += [(number, "number")] if number is not None and not columns[number].is_integer else []
    for column, kind in wrong:
        types = "DATE or a timestamp" if kind == "time" else "integers"
        raise ConfigError(
            f"the column {column!r} has the type {columns[column].type_name}, which does not order rows by {kind}",
            where=f"source jdbc, {name}",
            fix=f"name a column of {types}; or convert it in `query`",
        )


def cursor_names(config: JdbcConfig) -> list[str]:
    """Return the columns of the cursor, most significant first."""
    return [*config.timestamp_columns, *([config.incrementing_column] if config.incrementing_column else [])]


def _coalesce(columns: Sequence[str]) -> str:
    return columns[0] if len(columns) == 1 else f"COALESCE({', '.join(columns)})"
