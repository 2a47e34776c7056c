"""Servers of ``headrace live``: PostgreSQL with the shop's database, Kafka, and Connect with Debezium."""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from headrace.errors import FatalError
from headrace_demo.live import pagila
from headrace_stack import Connect, Kafka, Postgres

if TYPE_CHECKING:
    from rich.console import Console

PREFIX = "pagila"
#: Seconds until an incomplete snapshot is an error.
_TIMEOUT = 180
#: Settings of the connector in addition to the address of the database.
_CONNECTOR = {
    # Records with embedded schemas need no schema registry.
    "key.converter": "org.apache.kafka.connect.json.JsonConverter",
    "key.converter.schemas.enable": "true",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.schemas.enable": "true",
    # By default the converter replaces null with the column's default.
    "value.converter.replace.null.with.default": "false",
    # Publish changes of partitions under the name of the table; the snapshot then reads each row once.
    "publish.via.partition.root": "true",
    "table.exclude.list": "public[.]payment_p.*",
}


@dataclass(frozen=True)
class Servers:
    """Running servers; the ExitStack that started them stops them."""

    postgres: Postgres
    kafka: Kafka
    connect: Connect

    @classmethod
    def start(cls, stack: ExitStack, console: Console) -> Servers:
        """Download the artifacts, start the servers in order and load the shop's database."""
        postgres, kafka = Postgres(), Kafka()
        # PostgreSQL first: it raises an error on an unsupported machine.
        for server in (postgres, kafka, Connect(kafka, ("postgres",))):
            server.fetch()
        with _Step(console, "PostgreSQL") as step:
            stack.enter_context(postgres)
            step.finish(f"{postgres.host}:{postgres.port}")
        with _Step(console, "Pagila, loaded") as step:
            connection = postgres.connect()
            stack.callback(connection.close)
            pagila.load(connection)
            counts = pagila.count_rows(postgres)
            step.finish(f"{len(counts)} tables, {sum(counts.values()):,} rows")
        with _Step(console, "Kafka") as step:
            stack.enter_context(kafka)
            step.finish(kafka.bootstrap_servers)
        with _Step(console, "Connect with Debezium") as step:
            connect = stack.enter_context(Connect(kafka, ("postgres",)))
            step.finish(connect.url)
        return cls(postgres, kafka, connect)

    def snapshot(self, console: Console) -> None:
        """Start the connector and wait until all rows of the snapshot are in Kafka."""
        with _Step(console, "Debezium's snapshot") as step:
            self.connect.put(PREFIX, {**self.postgres.debezium(PREFIX), **_CONNECTOR})
            expected = {f"{PREFIX}.public.{name}": rows for name, rows in pagila.count_rows(self.postgres).items()}
            deadline = time.monotonic() + _TIMEOUT
            while True:
                self.connect.wait_until_running(PREFIX)
                waiting = [topic for topic, rows in expected.items() if not self._has_rows(topic, rows)]
                if not waiting:
                    break
                if time.monotonic() > deadline:
                    raise FatalError(
                        f"{', '.join(waiting)} lack rows after {_TIMEOUT} s", where="Debezium", fix="run the demo again"
                    )
                time.sleep(0.2)
            step.finish(f"{sum(expected.values()):,} events in {len(expected)} topics")

    def _has_rows(self, topic: str, rows: int) -> bool:
        return sum(self.kafka.end_offsets(topic).values()) >= rows


class _Step:
    """Step of the start on the screen: a spinner, then a line with the result and the seconds."""

    def __init__(self, console: Console, name: str) -> None:
        self._console, self._name = console, name
        self._status = console.status(name)

    def __enter__(self) -> Self:
        self._started = time.monotonic()
        self._status.start()
        return self

    def finish(self, result: str) -> None:
        self._status.stop()
        self._console.print(f"{self._name:<22}{result:<48}[dim]{time.monotonic() - self._started:5.1f} s[/]")

    def __exit__(self, *_: object) -> None:
        self._status.stop()
