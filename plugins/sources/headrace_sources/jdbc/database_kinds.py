"""Databases of the source ``jdbc``: their drivers, and the sessions in which rows are read."""

from __future__ import annotations

from dataclasses import dataclass, replace


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
    #: Names of the types of times that have a time zone.
    instant_types: tuple[str, ...]
    #: Names of the types of times that are read as texts. Spark converts the driver's times with the time zone of the JVM.
    text_types: tuple[str, ...]
    #: Databases or schemas that belong to the database itself.
    own_schemas: tuple[str, ...]
    #: Letter that encloses names in SQL.
    quote: str

    def spark_url(self, url: str) -> str:
        """Return the address for Spark's reader."""
        if self.prefix != "jdbc:mariadb:":
            return url
        # Spark has no dialect for this prefix: it quotes names like strings of MariaDB, and reads the names as values.
        address = f"jdbc:mysql:{url.removeprefix(self.prefix)}"
        return f"{address}{'&' if '?' in address else '?'}permitMysqlScheme"


_MYSQL = DatabaseKind(
    "jdbc:mysql:",
    "com.mysql.cj.jdbc.Driver",
    None,
    "SET time_zone = '+00:00'",
    "UNIX_TIMESTAMP({})",
    has_catalogs=True,
    instant_types=("timestamp",),
    text_types=("timestamp", "datetime"),
    own_schemas=("information_schema", "mysql", "performance_schema", "sys"),
    quote="`",
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
        instant_types=("timestamptz",),
        text_types=(),
        own_schemas=("information_schema", "pg_catalog"),
        quote='"',
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
