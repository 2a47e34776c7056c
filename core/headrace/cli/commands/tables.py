"""``headrace tables``."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from headrace.cli.formatting import UNKNOWN, format_count, format_json

if TYPE_CHECKING:
    from headrace.pipeline import MeasuredTable


@click.command()
@click.argument("file", type=click.Path())
@click.option("--format", "form", type=click.Choice(["table", "json"]), default="table", help="A table, or JSON lines.")
def tables(file: str, *, form: str) -> None:
    """Show the size of each table and its maintenance backlog.

    small: files that would be compacted; deletes: files with deletes or updates for rows of other files; since: the oldest readable
    version. The pipeline may be running.
    """
    from headrace.cli.startup import open_session

    with open_session(file, "reading") as (pipeline, spark):
        measured = pipeline.measure(spark)
    if form == "json":
        for table in measured:
            click.echo(format_json({"table": table.table, "sink": table.sink, **asdict(table.size)}))
    elif measured:
        _print(measured)
    else:
        click.echo(f"no table with a known size yet: headrace run {shlex.quote(file)}", err=True)


def _print(measured: Sequence[MeasuredTable]) -> None:
    from headrace.cli.table_output import make_console, make_table, make_text, put

    shown = make_table(
        "table",
        "sink",
        right=("rows", "bytes", "files", "small", "deletes", "versions", "since (UTC)", "compacted (UTC)"),
    )
    for item in measured:
        size = item.size
        counts = (size.rows, size.bytes, size.files, size.small_files, size.delete_files, size.versions)
        times = map(_format_time, (size.oldest_version, size.maintained))
        shown.add_row(make_text(item.table), make_text(item.sink), *map(format_count, counts), *times)
    put(make_console(), shown)


def _format_time(millis: int | None) -> str:
    return UNKNOWN if millis is None else f"{datetime.fromtimestamp(millis / 1000, UTC):%Y-%m-%d %H:%M:%S}"
