"""``headrace status``."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from headrace.cli.formatting import UNKNOWN, count_noun, format_count, format_duration, format_json, format_lag

if TYPE_CHECKING:
    from headrace.progress.rates import TableStatus
    from headrace.progress.summary import Summary

#: Age of a batch after which its lag is shown with the age: there are no new records, or no run is active.
_STALE_SECONDS = 60.0


@click.command()
@click.argument("file", type=click.Path())
@click.option("--format", "form", type=click.Choice(["table", "json"]), default="table", help="A table, or JSON lines.")
def status(file: str, *, form: str) -> None:
    """Show lag and latency of tables, and errors of failed ones.

    Read from the progress of the last 100 batches in the checkpoint. The pipeline may be running. Lag and latency are those of the
    table's last batch. If that batch ended more than a minute ago, the lag is shown with its age.
    """
    from headrace.cli.startup import open_checkpoint
    from headrace.progress.rates import measure_age

    with open_checkpoint(file) as (pipeline, spark):
        found = pipeline.status(spark)
    if form == "json":
        for table in found.tables:
            age = measure_age(table)
            click.echo(
                format_json({**asdict(table), "age_seconds": age, "is_stale": age is None or age > _STALE_SECONDS})
            )
    elif found.tables:
        _print(found.tables, found.summary, file)
    else:
        click.echo(f"no tables yet: headrace run {shlex.quote(file)}", err=True)


def _print(tables: Sequence[TableStatus], summary: Summary, file: str) -> None:
    from headrace.cli.run_log import describe_backlog, describe_failure, hint_at_dead_letters
    from headrace.cli.table_output import make_console, make_table, make_text, put
    from headrace.progress.rates import measure_age

    console = make_console()
    shown = make_table("table", "sink", right=("lag", "rows/s", "latency", "last batch"))
    for t in tables:
        latency = None if t.latency_ms is None else t.latency_ms / 1000
        age = measure_age(t)
        last = UNKNOWN if age is None else f"#{t.batch}, {format_duration(age)} ago"
        lag = describe_backlog(t) if t.error else format_lag(t.lag, t.lag_seconds)
        if age is not None and age > _STALE_SECONDS and t.lag is not None:
            lag = f"{lag}, {format_duration(age)} ago"
        cells = lag, format_count(round(t.rows_per_second)), format_duration(latency), last
        shown.add_row(make_text(t.table), make_text(t.sink), *cells, style="red" if t.error else "")
    put(console, shown)
    for line in dict.fromkeys(f"{t.table}: {describe_failure(t)}" for t in tables if t.error):
        console.print(make_text(line, "red", keep_lines=True), soft_wrap=True)
    if letters := summary.dead_letters:
        of = f"of the last {count_noun(summary.batches, 'batch', 'batches')}"
        console.print(make_text(f"{of}: {hint_at_dead_letters(letters, file)}", "yellow"), soft_wrap=True)
