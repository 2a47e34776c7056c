"""``headrace log``."""

from __future__ import annotations

import shlex
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from headrace.cli.formatting import format_json

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from headrace.progress.audit_entry import AuditEntry


@click.command()
@click.argument("file", type=click.Path())
@click.option("--last", type=click.IntRange(min=1), metavar="N", help="The last N commands. Default: all.")
@click.option("--format", "form", type=click.Choice(["table", "json"]), default="table", help="A table, or JSON lines.")
def log(file: str, *, last: int | None, form: str) -> None:
    """Show who ran which command by hand: epoch, maintain, replay, resync, verify --repair.

    Read from the checkpoint. Each command is recorded before it starts, and again with its result. A command that was killed stays
    `started`.
    """
    from headrace.cli.startup import open_checkpoint

    with open_checkpoint(file) as (pipeline, spark):
        entries = pipeline.log(last, spark)
    if form == "json":
        for entry in entries:
            click.echo(format_json(asdict(entry)))
    elif entries:
        _print(entries)
    else:
        click.echo("nobody has run epoch, maintain, replay, resync or verify --repair on this pipeline", err=True)


def _print(entries: Sequence[AuditEntry]) -> None:
    from headrace.cli.table_output import make_console, make_table, make_text, put

    console = make_console()
    shown = make_table("started", "command", "result", "by")
    for entry in entries:
        command = " ".join([entry.command, *_describe_arguments(entry.arguments)])
        result = f"{entry.result}: {entry.error.splitlines()[0]}" if entry.error else entry.result
        by = f"{entry.user or 'unknown user'}, {entry.host}, process {entry.pid}"
        shown.add_row(*map(make_text, (entry.started, command, result, by)), style="red" if entry.error else "")
    put(console, shown)


def _describe_arguments(arguments: Mapping[str, Any]) -> list[str]:
    """Return the arguments as on a command line: names of tables, then options."""
    tables = arguments.get("tables") or []
    options = {name: value for name, value in arguments.items() if name != "tables"}
    shown = [f"--{name}" if value is True else f"--{name} {shlex.quote(str(value))}" for name, value in options.items()]
    return [*map(shlex.quote, tables), *shown]
