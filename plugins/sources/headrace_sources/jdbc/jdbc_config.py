"""Options of the source ``jdbc``. Names and meanings are those of Confluent's JDBC source connector."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr, model_validator

from headrace.sdk import Config
from headrace.sdk.interval import Interval, seconds_of
from headrace_sources.jdbc.database_kinds import find_kind, list_prefixes

Mode = Literal["bulk", "incrementing", "timestamp", "timestamp+incrementing"]

#: Comments stay in the query: texts may contain the same letters.
_QUERY = re.compile(r"(?:\s|--[^\n]*\n|/\*.*?\*/)*(?:select|with)\b", re.IGNORECASE | re.DOTALL)
#: Drivers have several parameters with passwords, such as `sslpassword` and `keyStorePassword`.
_URL_LOGIN = re.compile(r"(?:password|passwd|pwd|secret)\d*\s*=|://[^/?]*@", re.IGNORECASE)


def _split(value: Any) -> Any:
    """Return the parts of a text with commas, as connectors write lists."""
    return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value


def _check_url(url: str) -> str:
    if _URL_LOGIN.search(url):
        raise ValueError(
            "the address contains a password",
            "write `connection.user` and `connection.password`; keep keys and key stores without a password, or set that of a key "
            "store with `javax.net.ssl.keyStorePassword` for driver and executors",
        )
    if find_kind(url) is None:
        raise ValueError(
            "this kind of database is not supported", f"write an address that starts with {list_prefixes()}"
        )
    return url


def _check_query(query: str) -> str:
    text = query.strip().rstrip(";").rstrip()
    if not _QUERY.match(text):
        raise ValueError("the query is not a SELECT", "write a statement that starts with SELECT or WITH")
    return text


def _check_pattern(pattern: str) -> str:
    try:
        re.compile(pattern)
    except re.error as error:
        raise ValueError(f"{pattern!r} is not a regular expression: {error}", "correct it") from None
    return pattern


def _check_zone(name: str) -> str:
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError):
        raise ValueError(f"no such time zone: {name!r}", "write it like Europe/Berlin") from None
    return name


_Texts = Annotated[tuple[str, ...], BeforeValidator(_split)]
_Patterns = Annotated[tuple[Annotated[str, AfterValidator(_check_pattern)], ...], BeforeValidator(_split)]


class JdbcConfig(Config):
    """Tables or a query of a database, read with JDBC. Options of Spark's JDBC reader go next to ``connection.url``."""

    passthrough: ClassVar[tuple[str, ...]] = ("fetchsize", "queryTimeout", "driver")
    explained: ClassVar[Mapping[str, tuple[str, str]]] = {
        "dbtable": ("Spark's `dbtable` names one table", "write `table.include.list`"),
        "url": ("the address has another name", "write `connection.url`"),
        "quote.sql.identifiers": ("names are always quoted", "remove the option"),
    }

    url: Annotated[str, AfterValidator(_check_url)] = Field(alias="connection.url")
    """JDBC address of the database, without a login: ``jdbc:postgresql://db:5432/shop``, ``jdbc:mariadb://db/shop``."""

    user: str | None = Field(None, alias="connection.user")
    """User of the database."""

    password: SecretStr | None = Field(None, alias="connection.password")
    """Password of the user."""

    mode: Mode
    """How new rows are found: ``bulk`` reads everything each time, ``incrementing`` reads rows with higher numbers, ``timestamp``
    reads rows with later times, and ``timestamp+incrementing`` orders rows of the same time by their number.
    """

    incrementing_column: str | None = Field(None, alias="incrementing.column.name")
    """Column of integers that only increase for new rows."""

    timestamp_columns: _Texts = Field((), alias="timestamp.column.name")
    """Column with the time of a row's last change. Of several columns, the first one that is not null counts."""

    query: Annotated[str, AfterValidator(_check_query)] | None = None
    """A SELECT whose rows are read in place of tables. Its topic is ``topic.prefix``."""

    whitelist: _Texts = Field((), alias="table.whitelist")
    """Names of the tables, with or without their schema (in MariaDB and MySQL, their database)."""

    include: _Patterns = Field((), alias="table.include.list")
    """Regular expressions for the tables. An expression must match ``schema.table``, or ``database.table``, as a whole."""

    exclude: _Patterns = Field((), alias="table.exclude.list")
    """Regular expressions for tables to leave out."""

    table_types: _Texts = Field(("TABLE", "PARTITIONED TABLE"), alias="table.types")
    """Types of the tables, as the driver names them. ``TABLE,VIEW`` reads views, and partitions of PostgreSQL in place of their tables."""

    catalog: str | None = Field(None, alias="catalog.pattern")
    """Catalog of the tables: in MariaDB and MySQL, the database. Default: that of the address."""

    schema_pattern: str | None = Field(None, alias="schema.pattern")
    """Schema of the tables, with ``%`` for any letters. Default: all schemas except the database's own."""

    topic_prefix: str = Field("", alias="topic.prefix")
    """Prefix of the topics. The topic of a table is this prefix and the table's name without its schema."""

    poll_interval: int = Field(5000, alias="poll.interval.ms", ge=0)
    """Pause between two polls without new rows, in milliseconds. With ``bulk``: pause between two loads."""

    table_poll_interval: int = Field(60_000, alias="table.poll.interval.ms", ge=0)
    """Pause between two searches for new tables, in milliseconds."""

    limit: int | None = Field(None, alias="batch.max.rows", gt=0)
    """Maximum number of new rows of a table in a batch. In mode ``timestamp``, rows of one time stay together. Default: all new rows."""

    partitions: int = Field(1, alias="numPartitions", gt=0)
    """Maximum number of connections that read a range of a table at the same time."""

    partition_column: str | None = Field(None, alias="partitionColumn")
    """Column of numbers by which a range is divided among connections. Default: the incrementing column, or a primary key of one column.
    """

    delay: int = Field(0, alias="timestamp.delay.interval.ms", ge=0)
    """Rows are read when they are older than this, in milliseconds, by the clock of the database."""

    window: int = Field(60_000, alias="timestamp.window.interval.ms", ge=0)
    """Rows that are at most this much older than the newest row read before are read again, in milliseconds: transactions that commit
    late have earlier times. ``0`` reads each row once, and loses rows of late transactions.
    """

    id_window: int = Field(1000, alias="incrementing.window", ge=0)
    """With ``incrementing``: this many numbers below the highest number read before are read again, for transactions that commit late.
    ``0`` reads each row once, and loses rows of late transactions.
    """

    validate_non_null: bool = Field(True, alias="validate.non.null")
    """Fail if rows have no value in a cursor column. ``false``: log a warning with their number, and leave them out."""

    zone: Annotated[str, AfterValidator(_check_zone)] = Field("UTC", alias="db.timezone")
    """Time zone of timestamps without a time zone."""

    numeric_mapping: Literal["none", "precision_only", "best_fit"] = Field("none", alias="numeric.mapping")
    """Types of NUMERIC columns: ``none`` keeps decimals, ``precision_only`` makes integers of those without a scale, and ``best_fit``
    also makes doubles of the others.
    """

    deleted_column: str | None = Field(None, alias="deleted.column.name")
    """Column that marks deleted rows: true, a number other than 0, a time, or the text ``true``, ``t``, ``yes``, ``y`` or ``1``."""

    delete_missing: bool = Field(False, alias="delete.missing")
    """With ``bulk``: remove the rows that the database no longer returns. A load without rows empties the table."""

    reconcile: Interval | None = None
    """With the other modes: pause between two comparisons of keys, such as ``1 hour``. A comparison reads all keys of a table, and removes
    the rows that the database no longer has. Default: no comparison.
    """

    @property
    def has_timestamp(self) -> bool:
        return self.mode.startswith("timestamp")

    @property
    def finds_missing_rows(self) -> bool:
        return self.delete_missing or self.reconcile is not None

    @property
    def reconcile_seconds(self) -> float | None:
        return None if self.reconcile is None else seconds_of(self.reconcile)

    @property
    def has_incrementing(self) -> bool:
        return self.mode.endswith("incrementing")

    @model_validator(mode="after")
    def _columns_go_with_mode(self) -> JdbcConfig:
        for name, is_set, is_needed in (
            ("timestamp.column.name", bool(self.timestamp_columns), self.has_timestamp),
            ("incrementing.column.name", self.incrementing_column is not None, self.has_incrementing),
        ):
            if is_set != is_needed:
                what = f"`mode: {self.mode}` needs" if is_needed else f"`mode: {self.mode}` does not use"
                raise ValueError(
                    f"{what} `{name}`", f"{'add' if is_needed else 'remove'} `{name}`, or choose another mode"
                )
        return self

    @model_validator(mode="after")
    def _only_loads_find_missing_rows(self) -> JdbcConfig:
        if self.delete_missing and self.mode != "bulk":
            raise ValueError(
                f"`mode: {self.mode}` does not read all rows",
                "write `reconcile: 1 hour` in place of `delete.missing`, or `mode: bulk`",
            )
        if self.reconcile_seconds == 0:
            raise ValueError("a pause of 0 seconds would read all keys without end", "write `reconcile: 1 hour`")
        if self.reconcile is not None and self.mode == "bulk":
            raise ValueError(
                "`mode: bulk` reads all rows each time", "write `delete.missing: true` in place of `reconcile`"
            )
        return self

    @model_validator(mode="after")
    def _choose_tables_or_query(self) -> JdbcConfig:
        if self.query is not None and (self.whitelist or self.include or self.exclude):
            raise ValueError("`query` and a list of tables exclude each other", "remove one of them")
        if self.query is not None and not self.topic_prefix:
            raise ValueError("`query` needs `topic.prefix`", "add the topic of its rows")
        if self.whitelist and self.include:
            raise ValueError("`table.whitelist` and `table.include.list` exclude each other", "remove one of them")
        return self
