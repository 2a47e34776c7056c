"""Sink for tables in PostgreSQL.

Executors copy a batch into a staging table. One transaction moves the rows from there into the target and records the
batch. A run that is killed leaves at most a staging table, which the next write removes, and never a partial batch.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar
from uuid import uuid4

from headrace_postgres_types import (
    HAS_NUL,
    LONGEST_NAME,
    from_text,
    is_nested,
    quote,
    select_text,
    spark_type,
    sql_type,
    to_text,
)
from pydantic import SecretStr

from headrace.sdk import (
    Batch,
    Capabilities,
    ConfigError,
    DataError,
    FatalError,
    HeadraceError,
    LoginError,
    NoSuchTableError,
    RetriableError,
    Sink,
    SinkConfig,
    Table,
    TableMode,
    WriteResult,
    hookimpl,
)
from headrace.sdk.changes import DELETED, POSITION
from headrace.sdk.error_text import full_text
from headrace.sdk.schemas import promote

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructField, StructType

DRIVER = "org.postgresql.Driver"
#: The table that records the batches of a schema's tables, and the prefix of staging tables.
MARKS, STAGE = "_headrace_marks", "_headrace_stage"
#: Driver errors for an unreachable or busy server; the last one is for a partition that Spark wrote twice.
AWAY = (
    r"Connection to \S+ refused|connection attempt failed|I/O error occurred|connection has been closed|terminating connection"
    r"|the database system is|lock timeout|too many clients|remaining connection slots|duplicate key .*_stage_"
)
#: Pattern of an error → the class of headrace's error, and the fix.
ERRORS: tuple[tuple[str, type[HeadraceError], str], ...] = (
    ("password authentication failed|no pg_hba.conf entry", LoginError, "correct `user` and `password`"),
    ("permission denied|must be owner", ConfigError, "allow `user` to create and change tables in the target's schema"),
    ("No space left on device", FatalError, "free disk space on the server"),
    (AWAY, RetriableError, "check that it runs and has free connections; nothing is lost, and the batch is retried"),
    ("out of range|invalid input|null value in|index row size|row is too big", DataError, "change it at the source"),
)


class PostgresSinkConfig(SinkConfig):
    """Database and credentials."""

    url: str
    """``jdbc:postgresql://HOST:PORT/DATABASE``."""

    user: str
    """A user who may create and change tables in the schemas of the targets."""

    password: SecretStr
    """Password of ``user``."""

    #: Options of PostgreSQL's JDBC driver (``sslmode``, ``socketTimeout``) and of Spark's JDBC writer.
    passthrough: ClassVar[tuple[str, ...]] = ("ssl*", "*Timeout", "batchsize", "numPartitions")


class PostgresSink(Sink):
    """``sink: {postgres_sink: {url: "jdbc:postgresql://db/shop", user: lake, password: "${env:PASSWORD}"}}``.

    The target ``shop.orders`` is the table ``orders`` in the schema ``shop``. Deleted rows are removed. In addition to
    the source's columns, a table has the column ``_headrace_position``.
    """

    name = "postgres_sink"
    api_version = 1
    Config = PostgresSinkConfig
    config: PostgresSinkConfig
    capabilities = Capabilities(upsert=True, delete=True, schema_evolution=True, exactly_once=True, single_pass=True)
    jars: ClassVar[Mapping[str, tuple[str, ...]]] = dict.fromkeys(("3.5", "4.1"), ("org.postgresql:postgresql:42.7.8",))
    jvm_class = DRIVER
    #: System columns of every PostgreSQL table.
    reserved_columns = ("tableoid", "xmin", "cmin", "xmax", "cmax", "ctid")

    def check(self, spark: SparkSession | None = None) -> None:
        where = "sink postgres_sink, url"
        if not re.fullmatch(r"jdbc:postgresql://[^/]+/[^/?]+(\?.*)?", self.config.url):
            raise ConfigError(
                "is not a JDBC URL for PostgreSQL", where=where, fix="write jdbc:postgresql://HOST:5432/DATABASE"
            )
        if re.search(r"[?&](user|password)=|//.*@", self.config.url):
            raise ConfigError("contains credentials, which stay visible", where=where, fix="use `user`, `password`")

    def check_table(self, table: Table, mode: TableMode) -> None:
        if len(table.parts) > 2 or any(len(part.encode()) > LONGEST_NAME for part in table.parts):
            fix = f"name a `target` of a schema and a table, of {LONGEST_NAME} bytes each"
            raise ConfigError("PostgreSQL does not support this name", where=f"table {table.name}", fix=fix)

    def connect(self, spark: SparkSession) -> Iterator[tuple[str, str]]:
        with self._open(spark) as server:
            yield "sink postgres_sink", server.query("SELECT version()")[0][0]

    def explain(self, error: BaseException) -> HeadraceError | None:
        text, where = full_text(error), f"sink postgres_sink, {self.config.url}"
        if has_nul := re.search(f"{HAS_NUL} '.*'", text):
            return DataError(has_nul[0], where=where, fix="remove the character at the source")
        match = re.search(r"org\.postgresql\.util\.PSQLException: (.+)", text)
        for pattern, kind, fix in ERRORS if match else ():
            if match and re.search(pattern, match[1]):
                return kind(f"PostgreSQL reports: {match[1]}", where=where, fix=fix)
        return None

    def write(self, table: Table, rows: DataFrame, batch: Batch) -> WriteResult:
        with self._open(rows.sparkSession) as server:
            server.lock(table)
            is_applied = batch.is_applied(server.read_marks(table, batch))
            if is_applied:
                return WriteResult(skipped=True)
            if is_applied is None and batch.mode == "append":  # In mode upsert, positions decide.
                raise batch.unknown_error(f"table {table.name}", "use a new checkpoint and another `target`")
            stage = server.create_stage(table, rows.schema)
            self._copy(rows, stage)
            with server.transaction():
                schema = server.fit(table, rows.schema, batch)
                upserted = server.apply(table, schema, rows.schema, stage, batch)
                server.add_batch(table, batch)
                server.run(f"DROP TABLE {stage}")
        return WriteResult(upserted=upserted)

    def read_back(self, spark: SparkSession, table: Table, as_of: str | None = None) -> DataFrame:
        from pyspark.sql import functions as F

        where = f"sink postgres_sink, table {table.name}"
        if as_of is not None:
            raise ConfigError("the sink keeps no older versions", where=where, fix="read the current version")
        with self._open(spark) as server:
            schema = server.read_schema(table)
        if schema is None:
            raise NoSuchTableError("there is no such table", where=where, fix="run the pipeline first")
        texts = ", ".join(f"{select_text(field)} AS c{n}" for n, field in enumerate(schema))
        # Without a fetch size, PostgreSQL's driver loads all rows into memory.
        options = {**self._options(), "dbtable": f"(SELECT {texts} FROM {_sql_name(table)}) t", "fetchsize": "10000"}
        frame = spark.read.format("jdbc").options(**options).load()
        return frame.select([from_text(F.col(f"c{n}"), field).alias(field.name) for n, field in enumerate(schema)])

    def _copy(self, rows: DataFrame, stage: str) -> None:
        """Copy the rows into the staging table, as strings: JDBC's dates are wrong before 1582."""
        from pyspark.sql import functions as F

        texts = [to_text(field).alias(f"c{n}") for n, field in enumerate(rows.schema)]
        # A partition that Spark writes a second time has the same numbers again, and the primary key rejects it.
        numbered = rows.select(F.monotonically_increasing_id().alias("number"), *texts)
        options = {**self._options(), "dbtable": stage, "reWriteBatchedInserts": "true"}
        numbered.write.format("jdbc").options(**options).mode("append").save()

    def _options(self) -> dict[str, str]:
        login = {"user": self.config.user, "password": self.config.password.get_secret_value()}
        # The detail of a server error contains values of a row.
        own = {**login, "url": self.config.url, "driver": DRIVER, "logServerErrorDetail": "false"}
        return {**self.config.options(), **own}

    @contextmanager
    def _open(self, spark: SparkSession) -> Iterator[Server]:
        """Open a connection from the Spark driver in the JVM, with the same JDBC driver that Spark uses."""
        jvm: Any = spark._jvm  # noqa: SLF001 - PySpark has no other access to the JVM
        properties = jvm.java.util.Properties()
        for key, value in self._options().items():
            properties.setProperty(key, value)
        connection = jvm.org.postgresql.Driver().connect(self.config.url, properties)
        try:
            yield Server(connection)
        finally:
            connection.close()


class Server:
    """One connection to PostgreSQL, with the statements that the Spark driver runs."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def run(self, sql: str, *values: str) -> int:
        """Run a statement with its parameters and return the number of changed rows."""
        statement = self._connection.prepareStatement(sql)
        for number, value in enumerate(values, 1):
            statement.setString(number, value)
        statement.execute()
        return int(statement.getUpdateCount())

    def query(self, sql: str, *values: str) -> list[list[Any]]:
        """Return the rows of a query, as strings."""
        statement = self._connection.prepareStatement(sql)
        for number, value in enumerate(values, 1):
            statement.setString(number, value)
        result, rows = statement.executeQuery(), []
        while result.next():
            rows.append([result.getString(number) for number in range(1, result.getMetaData().getColumnCount() + 1)])
        return rows

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Run the block in a transaction; closing the connection rolls it back if it was not committed."""
        self._connection.setAutoCommit(False)
        yield
        self._connection.commit()

    def lock(self, table: Table) -> None:
        """Lock the table until the connection ends: an executor of a killed run may still write."""
        self.run("SET lock_timeout = '60s'")
        self.run("SELECT pg_advisory_lock(hashtextextended(?, 0))", _sql_name(table))
        schema, _, _ = _sql_name(table).rpartition(".")
        if self.query("SELECT to_regnamespace(?)", schema) == [[None]]:
            self._create_once(f"CREATE SCHEMA IF NOT EXISTS {schema}")
        if self.query("SELECT to_regclass(?)", _sql_name(table, MARKS)) == [[None]]:
            columns = "target text, pipeline text, mark text, PRIMARY KEY (target, pipeline)"
            self._create_once(f"CREATE TABLE IF NOT EXISTS {_sql_name(table, MARKS)} ({columns})")

    def read_marks(self, table: Table, batch: Batch) -> list[str]:
        sql = f"SELECT mark FROM {_sql_name(table, MARKS)} WHERE target = ? AND pipeline = ?"
        return [mark for (mark,) in self.query(sql, table.parts[-1], batch.pipeline)]

    def add_batch(self, table: Table, batch: Batch) -> None:
        sql = f"INSERT INTO {_sql_name(table, MARKS)} VALUES (?, ?, ?)"
        sql += " ON CONFLICT (target, pipeline) DO UPDATE SET mark = EXCLUDED.mark"
        self.run(sql, table.parts[-1], batch.pipeline, batch.mark)

    def _create_once(self, sql: str) -> None:
        """Run a CREATE statement under a lock: two concurrent ones can both fail, despite IF NOT EXISTS."""
        self.run("SELECT pg_advisory_lock(hashtextextended(?, 1))", MARKS)
        self.run(sql)
        self.run("SELECT pg_advisory_unlock(hashtextextended(?, 1))", MARKS)

    def create_stage(self, table: Table, schema: StructType) -> str:
        """Create an empty staging table for rows of this schema, and drop the table's old staging tables."""
        ((prefix,),) = self.query("SELECT ? || md5(?)", f"{STAGE}_", table.name)
        for (old,) in self.query(
            "SELECT oid::regclass FROM pg_class WHERE relkind = 'r' AND starts_with(relname, ?)", prefix
        ):
            self.run(f"DROP TABLE {old}")
        stage = _sql_name(table, f"{prefix}_{uuid4().hex[:8]}")
        columns = "".join(f', c{n} text COLLATE "C"' for n in range(len(schema)))
        self.run(f"CREATE UNLOGGED TABLE {stage} (number bigint PRIMARY KEY{columns})")
        return stage

    def read_schema(self, table: Table) -> StructType | None:
        """Return the Spark schema of the table; None if the table does not exist."""
        from pyspark.sql.types import StructType

        columns = self.query(
            "SELECT attname, format_type(atttypid, atttypmod), col_description(attrelid, attnum) FROM pg_attribute"
            " WHERE attrelid = to_regclass(?) AND attnum > 0 AND NOT attisdropped ORDER BY attnum",
            _sql_name(table),
        )
        fields = [
            {"name": n, "type": spark_type(kind, note), "nullable": True, "metadata": {}} for n, kind, note in columns
        ]
        return StructType.fromJson({"fields": fields}) if fields else None

    def fit(self, table: Table, rows: StructType, batch: Batch) -> StructType:
        """Create the table, or add the columns and types that the rows need, and return its schema."""
        from pyspark.sql.types import StructField, StructType

        rows = StructType([field for field in rows if field.name != DELETED])
        stored = self.read_schema(table)
        key = table.key if batch.mode == "upsert" else ()
        if stored is None:
            self._create(table, rows, key)
            return rows
        self._check_key(table, stored, key)
        incoming = {field.name.lower(): field for field in rows}
        fields = []
        for field in stored:
            kind = promote(field.dataType, incoming.pop(field.name.lower(), field).dataType, field.name)
            fields.append(StructField(field.name, kind))
            if kind != field.dataType:
                self._alter(table, f"ALTER COLUMN {quote(field.name)} TYPE {sql_type(fields[-1])}", fields[-1])
        for field in incoming.values():
            self._alter(table, f"ADD COLUMN {quote(field.name)} {sql_type(field)}", field)
        return StructType([*fields, *incoming.values()])

    def _check_key(self, table: Table, stored: StructType, key: Sequence[str]) -> None:
        """Check that headrace created the table, and with this key."""
        where, fix = f"table {table.name}", "name another `target`, or drop the table and start with a new checkpoint"
        if POSITION not in stored.names:
            raise ConfigError("there is a table of this name, which headrace did not create", where=where, fix=fix)
        found = self.query(
            "SELECT a.attname FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY(i.indkey)"
            " WHERE i.indisprimary AND i.indrelid = to_regclass(?)",
            _sql_name(table),
        )
        names = sorted(name for (name,) in found)
        if key and {name.lower() for name in names} != {name.lower() for name in key}:
            raise ConfigError(f"its primary key is {names}, and not {list(key)}", where=where, fix=fix)

    def _alter(self, table: Table, what: str, field: StructField) -> None:
        self.run(f"ALTER TABLE {_sql_name(table)} {what}")
        self._note_type(table, field)

    def _create(self, table: Table, schema: StructType, key: Sequence[str]) -> None:
        columns = [f"{quote(field.name)} {sql_type(field)}" for field in schema]
        columns += [f"PRIMARY KEY ({', '.join(map(quote, key))})"] if key else []
        self.run(f"CREATE TABLE {_sql_name(table)} ({', '.join(columns)})")
        for field in schema:
            self._note_type(table, field)

    def _note_type(self, table: Table, field: StructField) -> None:
        """Store the Spark type of a JSON column in its comment."""
        if is_nested(field.dataType):
            comment = field.dataType.json().replace("'", "''")
            self.run(f"COMMENT ON COLUMN {_sql_name(table)}.{quote(field.name)} IS '{comment}'")

    def apply(self, table: Table, schema: StructType, rows: StructType, stage: str, batch: Batch) -> int:
        """Apply the staged rows to the table and return the number of inserted or updated rows."""
        target, at = _sql_name(table), quote(POSITION)
        staged = _casts(schema, rows)
        insert = f"INSERT INTO {target} AS t ({', '.join(staged)}) SELECT {', '.join(staged.values())} FROM {stage} s"
        if batch.mode == "append":
            return self.run(insert)
        is_deleted = f"s.c{rows.names.index(DELETED)}::boolean"
        key = [name for name in staged if name.lower() in {quote(part).lower() for part in table.key}]
        is_same = " AND ".join(f"t.{name} = {staged[name]}" for name in key)
        is_newer = f"t.{at} <= {staged[at]}"
        self.run(f"DELETE FROM {target} t USING {stage} s WHERE {is_deleted} AND {is_same} AND {is_newer}")
        # A column that the rows lack is null in EXCLUDED: a row replaces the stored row entirely.
        values = ", ".join(f"{name} = EXCLUDED.{name}" for name in map(quote, schema.names))
        update = f"UPDATE SET {values} WHERE t.{at} <= EXCLUDED.{at}"
        return self.run(f"{insert} WHERE NOT {is_deleted} ON CONFLICT ({', '.join(key)}) DO {update}")


def _casts(schema: StructType, rows: StructType) -> dict[str, str]:
    """Return the table's columns that the rows have → their staged values, cast to the table's types."""
    places = {name.lower(): n for n, name in enumerate(rows.names)}
    fields = [field for field in schema if field.name.lower() in places]
    return {quote(field.name): f"s.c{places[field.name.lower()]}::{sql_type(field)}" for field in fields}


def _sql_name(table: Table, other: str | None = None) -> str:
    """Return the SQL name of the table, or of another table in its schema."""
    schema, name = ("public", *table.parts)[-2:]
    return f"{quote(schema)}.{quote(other or name)}"


@hookimpl
def headrace_sinks() -> dict[str, type[Sink]]:
    """Return the sinks by the name used under ``sink:``."""
    return {"postgres_sink": PostgresSink}
