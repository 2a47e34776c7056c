"""PostgreSQL 15 with logical decoding for Debezium's connector (``pgoutput``)."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pg8000 import native

from headrace.errors import ConfigError
from headrace_stack.download import artifacts
from headrace_stack.servers.server import Server


class Postgres(Server):
    """Cluster with one superuser. ``execute`` and ``query`` raise ``pg8000.native.DatabaseError``."""

    name = "postgres"
    # "Fast shutdown" does not wait for clients. "Immediate shutdown" frees the shared memory, unlike SIGKILL.
    stop_signal = signal.SIGINT
    end_signal = signal.SIGQUIT

    user = "postgres"
    password = "headrace-secret"  # noqa: S105 - of a server that lives as long as the tests
    database = "postgres"

    @property
    def dsn(self) -> str:
        return f"postgresql://{self.user}:{self.password}@{self.host}:{self.port}/{self.database}"

    def connect(self, database: str | None = None) -> native.Connection:
        """Return a pg8000 connection, for transactions and parameters."""
        return native.Connection(
            self.user, host=self.host, port=self.port, password=self.password, database=database or self.database
        )

    def execute(self, sql: str) -> None:
        """Run statements in one transaction, unless they control transactions themselves."""
        self.query(sql)

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        """Return the rows of a statement."""
        connection = self.connect()
        try:
            return [tuple(row) for row in connection.run(sql) or ()]
        finally:
            connection.close()

    def debezium(self, topic_prefix: str) -> dict[str, str]:
        """Return a connector configuration; publication and slot are named after the prefix."""
        slot = "".join(letter if letter.isalnum() else "_" for letter in topic_prefix.lower())
        return {
            "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
            "topic.prefix": topic_prefix,
            "database.hostname": self.host,
            "database.port": str(self.port),
            "database.user": self.user,
            "database.password": self.password,
            "database.dbname": self.database,
            "plugin.name": "pgoutput",
            "slot.name": slot,
            "publication.name": slot,
            "poll.interval.ms": "10",
        }

    @property
    def uid(self) -> int | None:
        # PostgreSQL does not run as root.
        return pwd.getpwnam("nobody").pw_uid if os.geteuid() == 0 else None

    @property
    def address(self) -> str:
        return self.dsn

    def fetch(self) -> None:
        artifacts.unpack_native("postgres")

    def prepare(self) -> None:
        if self.uid is not None:
            self._grant_to_nobody()
        secret = self.folder / "password"
        secret.write_text(self.password, encoding="utf-8")
        if self.uid is not None:
            os.chown(secret, self.uid, self.uid)
        options = ("-U", self.user, "-A", "scram-sha-256", "--pwfile", secret, "-E", "UTF8", "--no-locale", "--no-sync")
        self.run(self._programs / "initdb", "-D", self._data, *options)

    def command(self) -> Sequence[str | Path]:
        settings = {
            "listen_addresses": self.host,
            "port": self.port,
            "unix_socket_directories": "",
            "wal_level": "logical",
            "max_wal_senders": 20,
            "max_replication_slots": 20,
            # A reader of a slot that a debugger or a test suspends stays connected.
            "wal_sender_timeout": 0,
            # The data does not need to survive a crash of the machine. With synchronous_commit off, changes reach a slot 100 ms later.
            "fsync": "off",
            "synchronous_commit": "on",
            "dynamic_shared_memory_type": "mmap",
            "log_timezone": "UTC",
            "timezone": "UTC",
        }
        arguments = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        return [self._programs / "postgres", "-D", self._data, *arguments]

    def ready(self) -> bool:
        return self.log_says("database system is ready to accept connections")

    @property
    def _data(self) -> Path:
        return self.folder / "data"

    @property
    def _programs(self) -> Path:
        own = self.folder / "programs"
        return (own if own.exists() else artifacts.unpack_native("postgres")) / "bin"

    def _grant_to_nobody(self) -> None:
        """Copy the programs for other users, who cannot read root's cache."""
        closed = [parent for parent in self.folder.parents if not parent.stat().st_mode & 0o001]
        if closed:
            raise ConfigError(
                "PostgreSQL does not run as root, and the user nobody has no access to the folder",
                where=str(closed[0]),
                fix="set TMPDIR to a folder that all users can access, or do not run as root",
            )
        shutil.copytree(artifacts.unpack_native("postgres"), self.folder / "programs", symlinks=True)
        (self.folder / "programs").chmod(0o755)
