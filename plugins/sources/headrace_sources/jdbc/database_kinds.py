"""Databases of the source ``jdbc``: their drivers, and the sessions in which rows are read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace


@dataclass(frozen=True)
class DatabaseKind:
    """Database and its JDBC driver."""

    prefix: str
    driver: str
    #: Coordinate of the driver; None: the user provides it.
    jar: str | None
    #: Statement that sets the time zone of a session to UTC, so that texts of times mean the same in every session.
    use_utc: str
    #: Time as a number of seconds, in SQL.
    seconds: str
    #: Whether the database names its databases in the place of schemas.
    has_catalogs: bool
    #: Names of types that are read as texts → their types in Spark SQL. Drivers convert times with the time zone of the JVM, and Spark
    #: rounds numbers.
    text_types: Mapping[str, str]
    #: Databases or schemas that belong to the database itself.
    own_schemas: tuple[str, ...]
    #: Letter that encloses names in SQL.
    quote: str
    #: Options with which the driver returns numbers of TINYINT(1) and YEAR, as Debezium's connectors do.
    options: Mapping[str, str] = field(default_factory=dict)
    #: Query of the partitions of tables: schema and name of a partition, then of the table above it; None: they are not tables.
    partitions: str | None = None
    #: Value of a CHAR or a UUID as a text, in SQL.
    text: str = "{}"
    #: Scheme of its addresses in lineage, and the port of an address without one.
    scheme: str = "mysql"
    port: int = 3306

    def find_text_type(self, type_name: str) -> str | None:
        """Return the type in Spark SQL of a type that is read as text, or of its elements; None for another type."""
        # PostgreSQL's names of arrays begin with an underscore.
        return self.text_types.get(type_name.lower().removeprefix("_"))

    def spark_url(self, url: str) -> str:
        """Return the address for Spark's reader."""
        if self.prefix != "jdbc:mariadb:":
            return url
        # Spark has no dialect for this prefix: it quotes names like strings of MariaDB, and reads the names as values.
        address = f"jdbc:mysql:{url.removeprefix(self.prefix)}"
        return f"{address}{'&' if '?' in address else '?'}permitMysqlScheme"


_PARTITIONS = """
SELECT n.nspname, c.relname, pn.nspname, p.relname FROM pg_inherits i
JOIN pg_class c ON c.oid = i.inhrelid JOIN pg_namespace n ON n.oid = c.relnamespace
JOIN pg_class p ON p.oid = i.inhparent JOIN pg_namespace pn ON pn.oid = p.relnamespace
WHERE c.relispartition
"""
_MYSQL = DatabaseKind(
    "jdbc:mysql:",
    "com.mysql.cj.jdbc.Driver",
    None,
    "SET time_zone = '+00:00'",
    "UNIX_TIMESTAMP({})",
    has_catalogs=True,
    text_types={
        "timestamp": "timestamp",
        "datetime": "timestamp_ntz",
        "date": "date",
        "time": "string",
        "decimal": "decimal",
    },
    own_schemas=("information_schema", "mysql", "performance_schema", "sys"),
    quote="`",
    options={"tinyInt1isBit": "false", "yearIsDateType": "false"},
    text="CAST({} AS CHAR)",
)
_MARIADB = replace(
    _MYSQL,
    prefix="jdbc:mariadb:",
    driver="org.mariadb.jdbc.Driver",
    jar="org.mariadb.jdbc:mariadb-java-client:3.5.3",
)
KINDS = (
    DatabaseKind(
        "jdbc:postgresql:",
        "org.postgresql.Driver",
        "org.postgresql:postgresql:42.7.7",
        "SET TIME ZONE 'UTC'",
        "EXTRACT(EPOCH FROM {})",
        has_catalogs=False,
        text_types={
            "timestamptz": "timestamp",
            "timestamp": "timestamp_ntz",
            "date": "date",
            "time": "string",
            "timetz": "string",
            "numeric": "decimal",
        },
        own_schemas=("information_schema", "pg_catalog"),
        quote='"',
        partitions=_PARTITIONS,
        scheme="postgres",
        port=5432,
    ),
    _MARIADB,
    _MYSQL,
)


def find_kind(url: str) -> DatabaseKind | None:
    """Return the database of an address; None if it is not supported."""
    return next((kind for kind in KINDS if url.startswith(kind.prefix)), None)


def list_prefixes() -> str:
    """Return the supported prefixes of addresses, for messages."""
    return ", ".join(kind.prefix for kind in KINDS)
