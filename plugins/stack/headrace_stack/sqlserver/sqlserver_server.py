"""Server class of the SQL Server stand-in."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from headrace_stack.servers.server import Server
from headrace_stack.sqlserver.remote_tables import RemoteTables


class SqlServer(RemoteTables, Server):
    """Stand-in for SQL Server with change data capture, for tests only. It is not SQL Server.

    A Python program answers the queries of Debezium's connector and Microsoft's JDBC driver over TDS. Rows, log positions and
    change tables are simulated; the events come from the real connector. It runs no SQL: the methods of this class create and
    change tables.
    """

    name = "sqlserver"
    ports = ("port", "_control_port")
    _control_port: int

    user = "sa"
    password = "headrace-secret"  # noqa: S105 - the server exists only during the tests
    database = "test"

    @property
    def control_url(self) -> str:
        return f"http://{self.host}:{self._control_port}"

    def debezium(self, topic_prefix: str, history_servers: str) -> dict[str, str]:
        """Return a connector configuration; ``history_servers`` is a Kafka for the schema history.

        Topics are named ``<prefix>.test.dbo.<table>``. The connector reads all tables unless ``table.include.list`` is set.
        """
        return {
            "connector.class": "io.debezium.connector.sqlserver.SqlServerConnector",
            "topic.prefix": topic_prefix,
            "database.hostname": self.host,
            "database.port": str(self.port),
            "database.user": self.user,
            "database.password": self.password,
            "database.names": self.database,
            "driver.encrypt": "false",
            "schema.history.internal.kafka.bootstrap.servers": history_servers,
            "schema.history.internal.kafka.topic": f"{topic_prefix}.schema-history",
            "poll.interval.ms": "10",
        }

    @property
    def address(self) -> str:
        return f"jdbc:sqlserver://{self.host}:{self.port};databaseName={self.database};encrypt=false"

    def fetch(self) -> None:
        """Do nothing: the program is part of this package."""

    def prepare(self) -> None:
        # The password is in a file, because every user of the machine can read the arguments of a process.
        (self.folder / "password").write_text(self.password, encoding="utf-8")

    def command(self) -> Sequence[str | Path]:
        settings = {
            "host": self.host,
            "port": self.port,
            "control-port": self._control_port,
            "user": self.user,
            "password-file": self.folder / "password",
            "database": self.database,
            "journal": self.folder / "journal.jsonl",
        }
        options = [f"--{name}={value}" for name, value in settings.items()]
        return [sys.executable, "-m", "headrace_stack.sqlserver", *options]

    def ready(self) -> bool:
        return self.log_says("ready for connections")
