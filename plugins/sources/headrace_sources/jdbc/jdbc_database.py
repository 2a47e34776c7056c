"""Connections of the driver to the database of the source ``jdbc``, for its catalog and for small queries."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from headrace.sdk import Dataset, HeadraceError
from headrace.sdk.columns import quote_name
from headrace_sources.jdbc.database_kinds import DatabaseKind, find_kind
from headrace_sources.jdbc.jdbc_config import JdbcConfig
from headrace_sources.jdbc.jdbc_errors import explain_jdbc_error

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_NO_NULLS = 0
#: First host, port and database of an address.
_ADDRESS = re.compile(r"jdbc:\w+://(?P<host>\[[^\]]+\]|[^:/,?]+)(?::(?P<port>\d+))?[^/?]*/(?P<database>[^?]*)")
#: Types of ``java.sql.Types``.
_INTEGERS = frozenset({-6, 5, 4, -5})
_DECIMALS = frozenset({2, 3})
_TIMES = frozenset({91, 93, 2014})


@dataclass(frozen=True)
class DatabaseColumn:
    """Column of a table or a query, as the driver describes it."""

    name: str
    type_name: str
    is_nullable: bool
    #: Number of the type in ``java.sql.Types``.
    type_code: int
    #: Number of digits after the decimal point.
    scale: int = 0
    #: Number of digits or characters; 0 if it is unknown.
    precision: int = 0

    @property
    def is_integer(self) -> bool:
        return self.type_code in _INTEGERS or (self.type_code in _DECIMALS and self.scale == 0)

    @property
    def is_time(self) -> bool:
        return self.type_code in _TIMES


@dataclass(frozen=True)
class TableName:
    """Name of a table. ``catalog`` and ``schema`` are those of the driver."""

    catalog: str | None
    schema: str | None
    name: str

    @property
    def full_name(self) -> str:
        """Return the name with its schema, or with its database where databases are catalogs."""
        return ".".join(filter(None, (self.schema or self.catalog, self.name)))


class JdbcDatabase:
    """Database of a configuration."""

    def __init__(self, config: JdbcConfig) -> None:
        self._config = config
        self.kind: DatabaseKind = find_kind(config.url)  # type: ignore[assignment]  # the configuration checks it
        self.where = f"source jdbc, {config.url}"

    def locate(self, table: str) -> Dataset | None:
        """Return the place of a table with its schema, or with its database where databases are catalogs."""
        match = _ADDRESS.match(self._config.url)
        if match is None:
            return None
        host, port = match["host"], match["port"] or self.kind.port
        name = table if self.kind.has_catalogs and "." in table else f"{match['database']}.{table}"
        return Dataset(f"{self.kind.scheme}://{host}:{port}", name)

    @contextmanager
    def connect(self, spark: SparkSession) -> Iterator[JdbcSession]:
        """Provide a session in UTC. Errors of the driver become errors of headrace."""
        connection: Any = None
        try:
            connection = self._open(spark)
            yield JdbcSession(connection, self.kind)
        except HeadraceError:
            raise
        except Exception as error:
            if (explained := explain_jdbc_error(error, self.where)) is not None:
                raise explained from error
            raise
        finally:
            if connection is not None:
                connection.close()

    def reader_options(self, types: Mapping[str, str] | None = None) -> dict[str, str]:
        """Return the options of Spark's reader, without the query. ``types``: column → its type, if it is not that of the reader."""
        login = {"user": self._config.user, "password": self._password}
        custom = ", ".join(f"{quote_name(name)} {kind}" for name, kind in sorted((types or {}).items()))
        return {
            "url": self.kind.spark_url(self._config.url),
            "driver": self.driver,
            # Without it, the driver of PostgreSQL loads all rows of a query into memory.
            "fetchsize": "10000",
            "sessionInitStatement": self.kind.use_utc,
            "preferTimestampNTZ": "true",
            **self.kind.options,
            **({"customSchema": custom} if custom else {}),
            **{name: value for name, value in login.items() if value is not None},
            **self._config.options(),
        }

    @property
    def driver(self) -> str:
        return self._config.options().get("driver", self.kind.driver)

    @property
    def _password(self) -> str | None:
        return self._config.password.get_secret_value() if self._config.password else None

    def _open(self, spark: SparkSession) -> Any:
        jvm: Any = spark._jvm  # noqa: SLF001 - PySpark has no public API for the JVM
        # DriverManager ignores drivers of jars that were added to the session. Spark registers them for itself.
        jvm.org.apache.spark.sql.execution.datasources.jdbc.DriverRegistry.register(self.driver)
        properties = jvm.java.util.Properties()
        for name, value in (("user", self._config.user), ("password", self._password), *self.kind.options.items()):
            if value is not None:
                properties.setProperty(name, value)
        connection = jvm.java.sql.DriverManager.getConnection(self._config.url, properties)
        statement = connection.createStatement()
        statement.execute(self.kind.use_utc)
        statement.close()
        return connection


class JdbcSession:
    """Open session. Its methods return plain values."""

    def __init__(self, connection: Any, kind: DatabaseKind) -> None:
        self._connection, self._kind, self._metadata = connection, kind, connection.getMetaData()
        self._quote = str(self._metadata.getIdentifierQuoteString()).strip()

    def run(self, sql: str) -> list[list[str | None]]:
        """Return the rows of a query as texts."""
        statement = self._connection.createStatement()
        try:
            rows = statement.executeQuery(sql)
            return _read_rows(rows, range(1, rows.getMetaData().getColumnCount() + 1))
        finally:
            statement.close()

    def read_clock(self) -> datetime:
        """Return the time of the database."""
        text = self.run("SELECT CURRENT_TIMESTAMP(6)")[0][0]
        moment = datetime.fromisoformat(str(text))
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)

    @property
    def kind(self) -> DatabaseKind:
        return self._kind

    def write_seconds(self, time: str) -> str:
        """Return a time in SQL as a number of seconds."""
        return self._kind.seconds.format(time)

    def quote(self, name: str) -> str:
        """Return a name as SQL."""
        return self._quote + name.replace(self._quote, self._quote * 2) + self._quote

    def quote_table(self, table: TableName) -> str:
        """Return the name of a table as SQL."""
        return ".".join(self.quote(part) for part in (table.schema or table.catalog, table.name) if part)

    def list_tables(self, catalog: str | None, schema: str | None, types: Sequence[str]) -> list[TableName]:
        """Return the tables of the types, without those of the database itself."""
        catalog = catalog or (self._connection.getCatalog() if self._kind.has_catalogs else None)
        rows = _read_rows(self._metadata.getTables(catalog, schema, "%", None), range(1, 5))
        wanted = {name.upper() for name in types}
        wanted |= {"BASE TABLE"} if "TABLE" in wanted else set()
        found = [TableName(row[0], row[1], str(row[2])) for row in rows if str(row[3]).upper() in wanted]
        return sorted(
            (table for table in found if (table.schema or table.catalog) not in self._kind.own_schemas),
            key=lambda table: table.full_name,
        )

    def list_partitions(self) -> dict[str, str]:
        """Return partition → the table of which it is a part, which may be a partition, too; both with their schemas."""
        rows = self.run(self._kind.partitions) if self._kind.partitions else []
        return {f"{schema}.{name}": f"{parent_schema}.{parent}" for schema, name, parent_schema, parent in rows}

    def list_columns(self, table: TableName) -> list[DatabaseColumn]:
        """Return the columns of a table, in order."""
        rows = self._metadata.getColumns(table.catalog, self._escape(table.schema), self._escape(table.name), "%")
        found = _read_rows(rows, (4, 6, 11, 5, 9))
        return [
            DatabaseColumn(str(name), str(kind), nullable != str(_NO_NULLS), int(code or 0), int(scale or 0))
            for name, kind, nullable, code, scale in found
        ]

    def list_query_columns(self, query: str) -> list[DatabaseColumn]:
        """Return the columns of a query."""
        statement = self._connection.prepareStatement(query)
        try:
            columns = statement.getMetaData()
            return [
                # Drivers do not find out whether columns of a query may be null.
                DatabaseColumn(
                    columns.getColumnLabel(number),
                    columns.getColumnTypeName(number),
                    is_nullable=True,
                    type_code=columns.getColumnType(number),
                    scale=columns.getScale(number),
                    precision=columns.getPrecision(number),
                )
                for number in range(1, columns.getColumnCount() + 1)
            ]
        finally:
            statement.close()

    def list_key_columns(self, table: TableName) -> list[str]:
        """Return the columns of the primary key, in order; empty without one."""
        rows = _read_rows(self._metadata.getPrimaryKeys(table.catalog, table.schema, table.name), (5, 4))
        return [str(name) for _, name in sorted((int(number or 0), name) for number, name in rows)]

    def list_leading_columns(self, table: TableName) -> set[str]:
        """Return the columns with which an index starts."""
        rows = self._metadata.getIndexInfo(table.catalog, table.schema, table.name, False, True)
        return {str(name) for number, name in _read_rows(rows, (8, 9)) if number == "1"}

    def _escape(self, name: str | None) -> str | None:
        """Return a name as a pattern that matches only this name."""
        escape = str(self._metadata.getSearchStringEscape())
        for letter in (escape, "_", "%"):
            name = name and name.replace(letter, escape + letter)
        return name


def _read_rows(rows: Any, columns: Sequence[int]) -> list[list[str | None]]:
    found = []
    while rows.next():
        found.append([rows.getString(number) for number in columns])
    rows.close()
    return found
