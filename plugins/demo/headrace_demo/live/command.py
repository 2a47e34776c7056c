"""``headrace live``: a database that is written to, and tables in two lakes that follow it."""

from __future__ import annotations

import os
import shutil
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import click

from headrace.cli.copy_commands import print_commands
from headrace.errors import ConfigError
from headrace_demo.live import pagila, report
from headrace_demo.live.changes import CHANGES, SALT, SHOWN

if TYPE_CHECKING:
    from rich.console import Console

    from headrace.pipeline import Pipeline
    from headrace_demo.live.follow import Follower
    from headrace_demo.live.servers import Servers

#: The folder's own mark: only a folder that has it is ever removed.
_MARK = ".headrace-live"
_PIPELINE = Path(__file__).with_name("pipeline.yaml")


@click.command()
@click.option(
    "--folder",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("headrace-live"),
    show_default=True,
    help="Where to put the pipeline file and the tables.",
)
def live(folder: Path) -> None:
    """Follow a live PostgreSQL database into Iceberg and Hudi.

    Starts PostgreSQL, Kafka and Connect with Debezium on this machine, loads Pagila (a video rental shop), keeps its 15
    tables true in both formats, makes twenty changes and says how long each took to arrive. Then it stops everything.
    """
    from rich.console import Console

    console = Console(highlight=False)
    clock = time.monotonic()
    _refuse(folder)
    _needs()
    _prepare(folder, console)
    from headrace_demo.live.servers import Servers

    stack = ExitStack()
    try:
        with stack:
            servers = Servers.start(stack, console)
            _run(servers, _pipeline(servers), console, stack)
    except KeyboardInterrupt:
        console.print("stopped: nothing is left running")
        # Threads of the batch that was cut short would be waited for; Spark ends with this process.
        os._exit(130)
    console.print("PostgreSQL, Kafka, Connect and Spark are stopped.")
    console.print(
        f"\n[bold]All of it took {time.monotonic() - clock:.0f} s.[/] The tables are in [cyan]{folder}/lake[/]; look around:"
    )
    show = "show pipeline.yaml"
    table = f"{show} pagila_public.customer"
    print_commands(console, folder, [show, f"{table} --limit 5", f"{table} --sink hudi --limit 5"], env=f"SALT={SALT}")


def _refuse(folder: Path) -> None:
    """ConfigError for a folder that holds something else."""
    if folder.exists() and not (folder / _MARK).exists() and any(folder.iterdir()):
        raise ConfigError(
            "is not empty and not this demonstration's", where=str(folder), fix="name another folder with --folder"
        )


def _needs() -> None:
    """ConfigError for what is missing, before anything is fetched or started."""
    try:
        import headrace.testing.stack  # noqa: F401 - its client libraries
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"the Python package {error.name} is not installed",
            where="headrace live",
            fix="pip install 'headrace[test]'",
        ) from None
    from headrace.pipeline import Pipeline
    from headrace.runtime.java import find_java
    from headrace.runtime.session import line_of, refuse, spark_version

    os.environ["SALT"] = SALT
    version = spark_version()
    refuse(Pipeline.from_file(_PIPELINE).plan.plugins, line_of(version))
    find_java(version)


def _prepare(folder: Path, console: Console) -> None:
    """A fresh folder, made the current one."""
    if folder.exists():
        shutil.rmtree(folder)
    folder.mkdir(parents=True)
    (folder / _MARK).touch()
    os.chdir(folder)
    console.rule("[bold]headrace live")
    console.print("A video rental shop's PostgreSQL database, followed into two lakes while it is written to.\n")


def _pipeline(servers: Servers) -> Pipeline:
    """The pipeline file for the broker that was started."""
    from headrace.pipeline import Pipeline

    text = _PIPELINE.read_text(encoding="utf-8").replace("BROKER", servers.kafka.bootstrap_servers)
    Path("pipeline.yaml").write_text(text, encoding="utf-8")
    return Pipeline.from_file("pipeline.yaml")


def _run(servers: Servers, pipeline: Pipeline, console: Console, stack: ExitStack) -> None:
    from rich.syntax import Syntax

    from headrace.cli.signals import listen_again
    from headrace_demo.live.follow import Follower

    servers.snapshot(console)
    console.print("\nOne pipeline file, [cyan]pipeline.yaml[/], for all tables:\n")
    console.print(
        Syntax(Path("pipeline.yaml").read_text(encoding="utf-8"), "yaml", background_color="default", word_wrap=True)
    )
    started = time.monotonic()
    with console.status("finding Java and jars, starting Spark"):
        spark = pipeline.session(console.print)
    stack.callback(spark.stop)
    listen_again()
    console.print(f"Spark {spark.version} is up after {time.monotonic() - started:.0f} s\n")
    follower = Follower(pipeline, spark)
    _snapshot(servers, follower, console)
    _changes(servers, follower, console)
    with console.status("counting the rows of every table again"):
        database = pagila.counts(servers.postgres)
        lakes = follower.counts(list(database))
    report.equal(console, database, lakes, follower.dead_letters)
    follower.stop()


def _snapshot(servers: Servers, follower: Follower, console: Console) -> None:
    """All rows that the database had."""
    clock = time.monotonic()
    database = pagila.counts(servers.postgres)
    with console.status(f"{len(database)} tables go into Iceberg and Hudi"):
        follower.await_rows(database)
        seconds = time.monotonic() - clock
        lakes = follower.counts(list(database))
    report.rows(console, f"the snapshot: {len(database)} tables in both lakes after {seconds:.0f} s", database, lakes)


def _changes(servers: Servers, follower: Follower, console: Console) -> None:
    """One change after the other, each when the one before has arrived."""
    report.heading(console)
    waits: list[dict[str, float]] = []
    before = follower.row(SHOWN)
    after = stored = None
    for change in CHANGES:
        with console.status(f"{change.kind} {change.row}"):
            servers.postgres.execute(change.sql)
            waits.append(follower.await_change(change, time.time()))
        report.change(console, change, waits[-1])
        if change is SHOWN:
            after, stored = follower.row(change), pagila.row(servers.postgres, change.table, change.row)
    report.waits(console, waits)
    assert before
    assert after
    assert stored
    report.row(console, before.asDict(), after.asDict(), stored)
