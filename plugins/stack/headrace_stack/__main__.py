"""Command line ``python -m headrace_stack``: start and stop servers, fetch and lock their artifacts."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any

import click

from headrace.errors import HeadraceError
from headrace.runtime.jars.resolution import cache_home
from headrace_stack import (
    S3,
    Connect,
    IcebergRest,
    Kafka,
    Kinesis,
    MariaDb,
    Metastore,
    Postgres,
    SchemaRegistry,
    Server,
    SqlServer,
)
from headrace_stack.download import artifact_lock, artifacts
from headrace_stack.iceberg_rest import rest_catalog
from headrace_stack.msk import broker
from headrace_stack.servers.server import is_alive

#: Seconds that `down` waits.
_TIMEOUT = 60
_MODULE = "headrace_stack"
#: Servers in start order; Connect uses the Kafka before it.
_SERVERS: dict[str, Callable[[], Server]] = {
    "kafka": Kafka,
    "postgres": Postgres,
    "mariadb": MariaDb,
    "mysql": lambda: MariaDb(as_mysql=True),
    "sqlserver": SqlServer,
    "kinesis": Kinesis,
    "s3": S3,
    "registry": SchemaRegistry,
    "metastore": Metastore,
    "iceberg-rest": IcebergRest,
}
_NAMES = [*_SERVERS, "connect"]

_state_option = click.option(
    "--state",
    type=click.Path(dir_okay=False, path_type=Path),
    help="State file of the running servers; use another file for a second set.  [default: in headrace's cache]",
)
_names_argument = click.argument("names", nargs=-1, type=click.Choice(_NAMES))


@click.group()
def main() -> None:
    """Run real servers on this machine: PostgreSQL, MariaDB, Kafka, Connect, S3, a registry, a metastore, a REST catalog.

    SQL Server and Kinesis are stand-ins for tests, not the real servers.
    """


@main.command()
@_names_argument
@_state_option
def up(names: Sequence[str], state: Path | None) -> None:
    """Start servers (all, or some by name) that run until `down`."""
    state = state or _default_state()
    command = [sys.executable, "-m", _MODULE, "hold", "--state", str(state), *(names or _NAMES)]
    # The process must outlive this one and its terminal.
    holder = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, start_new_session=True)
    assert holder.stdout
    try:
        output = holder.stdout.read()
    except KeyboardInterrupt:
        holder.terminate()
        holder.wait()
        raise
    if not output:
        sys.exit(holder.wait())
    _print(_read(state))


@main.command()
@_state_option
def down(state: Path | None) -> None:
    """Stop all servers of `up` and remove their data."""
    state = state or _default_state()
    if not (servers_up := _read(state)):
        click.echo("no server is running")
        return
    os.kill(servers_up["pid"], signal.SIGTERM)
    deadline = time.monotonic() + _TIMEOUT
    while _read(state):
        if time.monotonic() > deadline:
            raise click.ClickException(f"process {servers_up['pid']} is still running after {_TIMEOUT} s")
        time.sleep(0.05)
    click.echo(f"{len(servers_up['servers'])} servers stopped")


@main.command()
@_state_option
def status(state: Path | None) -> None:
    """Show the servers and their addresses; exit code 1 unless all of them are running."""
    servers_up = _read(state or _default_state())
    if not servers_up:
        click.echo("no server is running")
        sys.exit(1)
    _print(servers_up)
    sys.exit(not all(is_alive(server["pid"]) for server in servers_up["servers"].values()))


@main.command()
def fetch() -> None:
    """Fetch the artifacts of all servers, for a machine without a network."""
    _exit_on_error(artifacts.fetch_everything)
    _exit_on_error(S3().fetch)


@main.command("lock")
def write_lock() -> None:
    """Resolve artifacts.toml with Maven and npm and write artifacts.lock."""
    _exit_on_error(artifact_lock.write_lock)


@main.command("compile")
def compile_classes() -> None:
    """Rebuild msk/iam.jar and iceberg_rest/catalog.jar from their Java sources; requires a JDK."""
    for jar in (broker.JAR, rest_catalog.JAR):
        _exit_on_error(jar.compile)


@main.command(hidden=True)
@_names_argument
@_state_option
def hold(names: Sequence[str], state: Path) -> None:
    """Hold the servers of `up` until the process is terminated."""
    # The exception leaves the `with` below and stops the servers.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(0))
    state.parent.mkdir(parents=True, exist_ok=True)
    with state.open("a+") as file, ExitStack() as stack:
        try:
            # The kernel releases the lock when this process ends.
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            click.echo(f"Error: servers are already running; `python -m {_MODULE} down` stops them", err=True)
            sys.exit(1)
        stack.callback(state.unlink)
        _exit_on_error(lambda: _start(names, stack, file))
        click.echo("ready")
        with Path(os.devnull).open("w") as nowhere:
            os.dup2(nowhere.fileno(), 1)
            os.dup2(nowhere.fileno(), 2)
        signal.pause()


def _start(names: Sequence[str], stack: ExitStack, state: IO[str]) -> None:
    servers = {name: stack.enter_context(make()) for name, make in _SERVERS.items() if _is_wanted(name, names)}
    if "connect" in names:
        kafka = servers["kafka"]
        assert isinstance(kafka, Kafka)
        servers["connect"] = stack.enter_context(Connect(kafka))
    addresses = {
        name: {"pid": server.pid, "address": server.address, "log": str(server.log)} for name, server in servers.items()
    }
    state.truncate(0)
    state.write(json.dumps({"pid": os.getpid(), "servers": addresses}, indent=1))
    state.flush()


def _is_wanted(name: str, names: Sequence[str]) -> bool:
    return name in names or (name == "kafka" and "connect" in names)


def _read(state: Path) -> dict[str, Any] | None:
    """Return the state of running servers; None if there are none."""
    try:
        with state.open() as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                servers_up: dict[str, Any] | None = json.loads(file.read() or "null")
                return servers_up
    except FileNotFoundError:
        pass
    return None


def _print(servers_up: dict[str, Any] | None) -> None:
    rows = [("server", "listens at", "process", "log")]
    for name, server in (servers_up or {"servers": {}})["servers"].items():
        rows.append(
            (name, server["address"], str(server["pid"]) if is_alive(server["pid"]) else "ended", server["log"])
        )
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        click.echo("  ".join(map(str.ljust, row, widths)).rstrip())


def _exit_on_error(work: Callable[[], None]) -> None:
    try:
        work()
    except HeadraceError as error:
        click.echo(f"Error: {error}", err=True)
        sys.exit(error.exit_code)


def _default_state() -> Path:
    return cache_home() / "stack" / "up.json"


if __name__ == "__main__":
    main(prog_name=f"python -m {_MODULE}")
