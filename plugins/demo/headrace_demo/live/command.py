"""Command ``headrace live``: a live database, and its tables in two lakes."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import click

from headrace.errors import ConfigError
from headrace_demo.extras import check_extras
from headrace_demo.folder import PIPELINE_FILE, DemoFolder, folder_option, print_pipeline_file, start_spark
from headrace_demo.live import pagila, report
from headrace_demo.live.changes import CHANGES, SALT, SHOWN

if TYPE_CHECKING:
    from rich.console import Console

    from headrace.pipeline import Pipeline
    from headrace_demo.live.changes import ShopChange
    from headrace_demo.live.follow import Follower
    from headrace_demo.live.servers import Servers

_PIPELINE = Path(__file__).with_name(PIPELINE_FILE)


@click.command()
@folder_option("headrace-live")
@click.option(
    "--changes",
    # The minimum includes the change whose row is printed.
    type=click.IntRange(CHANGES.index(SHOWN) + 1, len(CHANGES)),
    default=len(CHANGES),
    show_default=True,
    help="How many changes to make.",
)
def live(folder: Path, changes: int) -> None:
    """Follow a live PostgreSQL database into Iceberg and Hudi.

    Starts PostgreSQL, Kafka and Connect with Debezium on this machine, loads Pagila (a video rental shop), keeps its 15
    tables equal in both formats, makes up to twenty changes and prints the latency of each. Then it stops all servers.
    """
    from rich.console import Console

    console = Console(highlight=False)
    home = DemoFolder(folder, ".headrace-live")
    home.check()
    _check_requirements()
    home.enter()
    console.rule("[bold]headrace live")
    console.print("A video rental shop's PostgreSQL database, followed into two lakes while it is written to.\n")
    from headrace_demo.live.servers import Servers

    stack = ExitStack()
    try:
        with stack:
            servers = Servers.start(stack, console)
            _run(servers, _write_pipeline(servers), CHANGES[:changes], console, stack)
    except KeyboardInterrupt:
        console.print("stopped; no server is running")
        # A normal exit would wait for threads of the canceled batch; Spark ends with this process.
        os._exit(130)
    console.print("PostgreSQL, Kafka, Connect and Spark are stopped.")
    show = f"show {PIPELINE_FILE}"
    table = f"{show} pagila_public.customer"
    home.print_end(console, [show, f"{table} --limit 5", f"{table} --sink hudi --limit 5"], salt=SALT)


def _check_requirements() -> None:
    """Raise ConfigError for a missing requirement, before anything is downloaded or started."""
    check_extras("headrace live", "demo", "spark", "stack")
    try:
        import headrace_stack  # noqa: F401 - its client libraries
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"the Python package {error.name} is not installed",
            where="headrace live",
            fix="pip install 'headrace[stack]'",
        ) from None
    from headrace.pipeline import Pipeline
    from headrace.runtime.java.installation import find_java
    from headrace.runtime.session.spark_support import check_supported, spark_version

    os.environ["SALT"] = SALT
    version = spark_version()
    check_supported(Pipeline.from_file(_PIPELINE).plan.plugins, version)
    find_java(version)


def _write_pipeline(servers: Servers) -> Pipeline:
    """Write the pipeline file with the address of the broker."""
    from headrace.pipeline import Pipeline

    text = _PIPELINE.read_text(encoding="utf-8").replace("BROKER", servers.kafka.bootstrap_servers)
    Path(PIPELINE_FILE).write_text(text, encoding="utf-8")
    return Pipeline.from_file(PIPELINE_FILE)


def _run(
    servers: Servers, pipeline: Pipeline, changes: Sequence[ShopChange], console: Console, stack: ExitStack
) -> None:
    from headrace.cli.signals import listen_again
    from headrace_demo.live.follow import Follower

    servers.snapshot(console)
    console.print("\nOne pipeline file, [cyan]pipeline.yaml[/], for all tables:\n")
    print_pipeline_file(console)
    spark = start_spark(pipeline, console)
    stack.callback(spark.stop)
    listen_again()
    follower = Follower(pipeline, spark, console)
    stack.callback(follower.stop)
    try:
        _follow_snapshot(servers, follower, console)
        _follow_changes(servers, follower, changes, console)
        with console.status("counting the rows of every table again"):
            database = pagila.count_rows(servers.postgres)
            lakes = follower.count_rows(list(database))
    except KeyboardInterrupt:
        console.print("stopping after the current batch; a second Ctrl-C stops immediately")
        raise
    report.check_equal(console, database, lakes, follower.dead_letters)


def _follow_snapshot(servers: Servers, follower: Follower, console: Console) -> None:
    """Wait for the rows of the snapshot and print their counts."""
    started = time.monotonic()
    database = pagila.count_rows(servers.postgres)
    with console.status(f"{len(database)} tables go into Iceberg and Hudi"):
        follower.await_rows(database)
        seconds = time.monotonic() - started
        lakes = follower.count_rows(list(database))
    report.print_rows(
        console, f"the snapshot: {len(database)} tables in both lakes after {seconds:.0f} s", database, lakes
    )


def _follow_changes(servers: Servers, follower: Follower, changes: Sequence[ShopChange], console: Console) -> None:
    """Make each change after the previous one is readable in both lakes."""
    report.print_heading(console, len(changes))
    latencies: list[dict[str, float]] = []
    before = follower.read_row(SHOWN)
    after = stored = None
    for change in changes:
        with console.status(f"{change.kind} {change.row}"):
            servers.postgres.execute(change.sql)
            latencies.append(follower.await_change(change, time.time()))
        report.print_change(console, change, latencies[-1])
        if change is SHOWN:
            after, stored = follower.read_row(change), pagila.read_row(servers.postgres, change.table, change.row)
    report.print_latency(console, latencies)
    assert before
    assert after
    assert stored
    report.print_row(console, before.asDict(), after.asDict(), stored)
