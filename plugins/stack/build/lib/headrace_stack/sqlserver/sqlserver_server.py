"""The server of the stack."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from headrace_stack.servers.server import Server
from headrace_stack.sqlserver.remote_tables import Tables


class SqlServer(Tables, Server):
    """A STAND-IN for SQL Server with change data capture, not SQL Server: a Python program that speaks TDS.

    It answers what Debezium's real connector and Microsoft's real driver ask. Rows, log positions and change tables
    are its own; everything that makes an event of them is Debezium's. There is no SQL: tables are made and changed by
    the methods of this class.
    """

    name = "sqlserver"
    ports = ("port", "_control_port")
    _control_port: int

    user = "sa"
    password = "headrace-secret"  # noqa: S105 - of a server that lives as long as the tests
    database = "test"

    @property
    def control_url(self) -> str:
        return f"http://{self.host}:{self._control_port}"

    def debezium(self, topic_prefix: str, history_servers: str) -> dict[str, str]:
        """A connector's configuration for this server; ``history_servers``: a Kafka for the schema's history.

        Topics are named ``<prefix>.test.dbo.<table>``. It reads all tables unless ``table.include.list`` is added.
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
        """Nothing to fetch: the program is headrace's own."""

    def command(self) -> Sequence[str | Path]:
        settings = {
            "host": self.host,
            "port": self.port,
            "control-port": self._control_port,
            "user": self.user,
            "password": self.password,
            "database": self.database,
            "journal": self.folder / "journal.jsonl",
        }
        given = [f"--{name}={value}" for name, value in settings.items()]
        return [sys.executable, "-m", "headrace_stack.sqlserver", *given]

    def ready(self) -> bool:
        return self.log_says("ready for connections")
