"""The database with the shop in it, and what carries its changes: Kafka and Connect with Debezium."""

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
#: Seconds that the snapshot may take.
_PATIENCE = 180
#: What the connector is told beside how to reach the database.
_CONNECTOR = {
    # With their schemas, records need no registry beside Kafka.
    "key.converter": "org.apache.kafka.connect.json.JsonConverter",
    "key.converter.schemas.enable": "true",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.schemas.enable": "true",
    # Unless told otherwise, the converter writes a column's default where the row has null.
    "value.converter.replace.null.with.default": "false",
    # A partitioned table is one table: changes of its parts come as its own, and the snapshot reads it once.
    "publish.via.partition.root": "true",
    "table.exclude.list": "public[.]payment_p.*",
}


@dataclass(frozen=True)
class Servers:
    """PostgreSQL, Kafka and Connect; they run until the ExitStack that they were started on ends."""

    postgres: Postgres
    kafka: Kafka
    connect: Connect

    @classmethod
    def start(cls, stack: ExitStack, console: Console) -> Servers:
        """Fetch what they are made of, start them one after the other, load the shop."""
        postgres, kafka = Postgres(), Kafka()
        # PostgreSQL first: it says whether this machine is one that they run on.
        for server in (postgres, kafka, Connect(kafka, ("postgres",))):
            server.fetch()
        with _Step(console, "PostgreSQL") as step:
            stack.enter_context(postgres)
            step.finish(f"{postgres.host}:{postgres.port}")
        with _Step(console, "Pagila, loaded") as step:
            connection = postgres.connect()
            stack.callback(connection.close)
            pagila.load(connection)
            counts = pagila.counts(postgres)
            step.finish(f"{len(counts)} tables, {sum(counts.values()):,} rows")
        with _Step(console, "Kafka") as step:
            stack.enter_context(kafka)
            step.finish(kafka.bootstrap_servers)
        with _Step(console, "Connect with Debezium") as step:
            connect = stack.enter_context(Connect(kafka, ("postgres",)))
            step.finish(connect.url)
        return cls(postgres, kafka, connect)

    def snapshot(self, console: Console) -> None:
        """Debezium reads every table; returns when all rows are in Kafka."""
        with _Step(console, "Debezium's snapshot") as step:
            self.connect.put(PREFIX, {**self.postgres.debezium(PREFIX), **_CONNECTOR})
            expected = {f"{PREFIX}.public.{name}": rows for name, rows in pagila.counts(self.postgres).items()}
            deadline = time.monotonic() + _PATIENCE
            while True:
                self.connect.wait_until_running(PREFIX)
                waiting = [topic for topic, rows in expected.items() if not self._has_rows(topic, rows)]
                if not waiting:
                    break
                if time.monotonic() > deadline:
                    raise FatalError(
                        f"{', '.join(waiting)} lack rows after {_PATIENCE} s", where="Debezium", fix="start it again"
                    )
                time.sleep(0.2)
            step.finish(f"{sum(expected.values()):,} events in {len(expected)} topics")

    def _has_rows(self, topic: str, rows: int) -> bool:
        return sum(self.kafka.end_offsets(topic).values()) >= rows


class _Step:
    """A step of the start on the screen: what is under way, then a line with its result and seconds."""

    def __init__(self, console: Console, what: str) -> None:
        self._console, self._what = console, what
        self._status = console.status(what)

    def __enter__(self) -> Self:
        self._clock = time.monotonic()
        self._status.start()
        return self

    def finish(self, result: str) -> None:
        self._status.stop()
        self._console.print(f"{self._what:<22}{result:<48}[dim]{time.monotonic() - self._clock:5.1f} s[/]")

    def __exit__(self, *_: object) -> None:
        self._status.stop()
