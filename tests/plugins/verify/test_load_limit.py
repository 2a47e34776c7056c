"""Pauses of ``headrace verify`` while the database is busy."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from headrace_verify import load_limit
from headrace_verify.compared_table import ComparedTable
from headrace_verify.load_limit import LoadLimit
from headrace_verify.sides import SourceSide
from headrace_verify.source_connection import KINDS
from headrace_verify.source_table import SourceDatabase, SourceTable
from tests.plugins.verify.file_pipeline import write_pipeline
from tests.support.waiting import until

from headrace.sdk import ConfigError, RetriableError
from headrace_connect.preflight.source_database import open_database, resolve_options
from headrace_stack import MariaDb, Postgres


class Clock:
    """Clock that only advances in ``sleep``."""

    def __init__(self) -> None:
        self.now = 100.0

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(load_limit, "time", clock)
    return clock


def make_limit(loads: Sequence[int], limit: int | None = 3, timeout: float = 60) -> tuple[LoadLimit, list[str]]:
    """Return a limit over a database with these loads, the last one without end, and the lines that it prints."""
    left, lines = list(loads), list[str]()
    database = SimpleNamespace(count_active=lambda: left.pop(0) if len(left) > 1 else left[0])
    return LoadLimit(cast("SourceDatabase", database), limit, timeout, lines.append), lines


def test_reads_continue_when_the_load_falls(clock: Clock) -> None:
    load, lines = make_limit([0, *[4] * 20, 3])
    load.wait()
    assert clock.now == 120
    assert lines == [
        "paused: 4 other sessions run statements, and `max.load` is 3",
        "continued after 20 seconds",
    ]


def test_short_pause_prints_nothing(clock: Clock) -> None:
    load, lines = make_limit([0, 4, 4, 3])
    load.wait()
    assert (clock.now, lines) == (102, [])


@pytest.mark.usefixtures("clock")
def test_pause_ends_with_the_timeout() -> None:
    load, _ = make_limit([9])
    with pytest.raises(RetriableError, match="was busy for 60 seconds: 9 other sessions run statements") as raised:
        load.wait()
    assert "raise `max.load` or `max.load.timeout`" in str(raised.value)


def test_next_table_does_not_wait_for_the_timeout_again(clock: Clock) -> None:
    load, _ = make_limit([9])
    for _ in range(3):
        with pytest.raises(RetriableError):
            load.wait()
    assert clock.now == 160


def test_each_pause_has_the_whole_timeout(clock: Clock) -> None:
    load, _ = make_limit([0, *[4] * 50, 0, *[4] * 50, 0])
    load.wait()
    load.wait()
    assert clock.now == 200


def test_load_is_not_read_without_a_limit(clock: Clock) -> None:
    load, _ = make_limit([99], limit=None)
    load.wait()
    assert clock.now == 100


def test_each_statement_that_reads_rows_waits() -> None:
    done: list[str] = []

    def query(_sql: str) -> list[tuple[Any, ...]]:
        done.append("read")
        return []

    database: Any = SimpleNamespace(
        query=query,
        reference=str,
        quote=str,
        quote_text=repr,
        join="|".join,
        hash=str,
        number=str,
        row_version="0",
    )
    column: Any = SimpleNamespace(name="id", source="id", form=SimpleNamespace(is_free=False, literal="{text}"))
    table = ComparedTable(SourceTable("public", "orders", (), ("id",)), (column,), (column,), {})
    side = SourceSide(database, table, 1, None, lambda: done.append("wait"))
    side.sum_buckets()
    list(side.list_rows(["a"]))
    side.find_rows([(str(number),) for number in range(1200)])
    assert done == ["wait", "read"] * 5


@contextmanager
def open_kind(options: dict[str, str]) -> Iterator[SourceDatabase]:
    kind, _ = KINDS[options["connector.class"]]
    with open_database(resolve_options(options, {}), 60) as query:
        yield kind(query, options)


@contextmanager
def keep_busy(server: Postgres | MariaDb, sessions: int) -> Iterator[None]:
    """Run a statement in some sessions during a block."""
    with ExitStack() as stack:
        for _ in range(sessions):
            connection = server.connect()
            stack.callback(stop_statement, server, connection)
            threading.Thread(target=run_long, args=[connection], daemon=True).start()
        yield


def run_long(connection: Any) -> None:
    with suppress(Exception):  # stopped at the end of the block
        if hasattr(connection, "run"):
            connection.run("select pg_sleep(300)")
        else:
            connection.cursor().execute("select sleep(300)")


def stop_statement(server: Postgres | MariaDb, connection: Any) -> None:
    if isinstance(server, Postgres):
        server.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity where query like '%pg_sleep(300)%' and pid <> pg_backend_pid()"
        )
    else:
        server.execute(f"kill {connection.thread_id()}")


@pytest.mark.dist
@pytest.mark.parametrize("kind", ["postgres", pytest.param("mariadb", marks=pytest.mark.nightly)])
def test_reads_pause_on_a_busy_server_until_its_load_falls(kind: str, request: pytest.FixtureRequest) -> None:
    server: Postgres | MariaDb = request.getfixturevalue(kind)
    with open_kind(
        server.debezium("load") if isinstance(server, Postgres) else server.debezium("load", "")
    ) as database:
        assert database.count_active() == 0
        load = LoadLimit(database, 1, 60, lambda _: None)
        load.wait()
        reader = threading.Thread(target=load.wait)
        with keep_busy(server, 2):
            until(lambda: database.count_active() == 2, "two busy sessions", 20)
            reader.start()
            reader.join(3)
            assert reader.is_alive()
        reader.join(20)
        assert not reader.is_alive()


@pytest.mark.dist
def test_user_must_see_the_sessions_of_others(postgres: Postgres) -> None:
    postgres.execute("create role plain login password 'plain'")
    options = {**postgres.debezium("load"), "database.user": "plain", "database.password": "plain"}
    with open_kind(options) as database, pytest.raises(ConfigError, match="does not see the sessions") as raised:
        LoadLimit(database, 1, 60, lambda _: None)
    assert 'grant pg_read_all_stats to "plain"' in str(raised.value)


@pytest.mark.nightly
@pytest.mark.dist
@pytest.mark.slow
@pytest.mark.spark
def test_command_pauses_and_finishes(tmp_path: Path, postgres: Postgres) -> None:
    file = write_pipeline(tmp_path, postgres, "paused", **{"max.load": 1})
    program = [sys.executable, "-m", "headrace"]
    subprocess.run([*program, "run", str(file), "--available-now"], check=True, timeout=300)
    command = [*program, "verify", str(file)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as verify:
        assert verify.stdout is not None
        assert verify.stderr is not None
        with keep_busy(postgres, 2):
            assert "paused: 2 other sessions run statements, and `max.load` is 1" in verify.stderr.readline()
            assert verify.poll() is None
        assert "continued after" in verify.stderr.readline()
        assert verify.stdout.read().splitlines()[1].split()[:3] == ["paused.orders", "100", "100"]
    assert verify.returncode == 0
