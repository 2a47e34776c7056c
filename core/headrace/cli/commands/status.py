"""``headrace status``."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from headrace.cli.formatting import UNKNOWN, count, counted, span

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.pipeline import Pipeline
    from headrace.progress.rates import TableStatus
    from headrace.progress.summary import Summary


@click.command()
@click.argument("file")
@click.option("--format", "form", type=click.Choice(["table", "json"]), default="table", help="A table, or JSON lines.")
def status(file: str, *, form: str) -> None:
    """Show how each table keeps up, and which of them fail and why.

    From what the last 100 batches left in the checkpoint. It may be asked while the pipeline runs.
    """
    from headrace.cli.startup import Spinner, opened, started

    with Spinner() as spinner:
        pipeline = opened(file)
        spark = started(pipeline, spinner)
        spinner.doing("reading")
        tables, summary = _read(pipeline, spark)
    if form == "json":
        for table in tables:
            click.echo(json.dumps(asdict(table), ensure_ascii=False))
    elif tables:
        _print(tables, summary, file)
    else:
        click.echo(f"no table was written yet: headrace run {file}", err=True)
    spark.stop()


def _read(pipeline: Pipeline, spark: SparkSession) -> tuple[list[TableStatus], Summary]:
    from headrace.engine.catch_up import waiting
    from headrace.progress.model import ProgressLog
    from headrace.progress.rates import TableStatus, flow
    from headrace.progress.summary import Summary
    from headrace.spark.storage import Folder

    checkpoint = Folder(spark, pipeline.checkpoint)
    batches = ProgressLog(checkpoint.folder("progress")).all()
    found = {(table.table, table.sink): table for table in flow(batches)}
    # What a table has still to get outlives the batches whose progress is kept.
    for name, part in waiting(checkpoint.folder("behind")).items():
        for sink in pipeline.sinks:
            known = found.get((name, sink.name)) or TableStatus(name, sink.name, None, None, None, None, 0.0)
            found[name, sink.name] = replace(known, error=f"waits since {part.since}: {part.error}")
    return [found[name] for name in sorted(found)], Summary.of(pipeline.name, batches)


def _print(tables: Sequence[TableStatus], summary: Summary, file: str) -> None:
    from rich.text import Text

    from headrace.cli.run_log import letters_hint
    from headrace.cli.table_output import plain_table, put, stdout

    console, now = stdout(), datetime.now(UTC)
    shown = plain_table("table", "sink", right=("waiting", "rows/s", "behind", "last batch"))
    for t in tables:
        latency = None if t.latency_ms is None else t.latency_ms / 1000
        age = (now - datetime.fromisoformat(t.ended)).total_seconds() if t.ended else None
        last = UNKNOWN if age is None else f"#{t.batch}, {span(age)} ago"
        cells = count(t.lag), count(round(t.rows_per_second)), span(latency), last
        shown.add_row(Text(t.table), Text(t.sink), *cells, style="red" if t.error else "")
    put(console, shown)
    for name, error in dict.fromkeys((t.table, t.error) for t in tables if t.error):
        console.print(Text(f"{name}: {error}", style="red"), soft_wrap=True)
    if letters := summary.dead_letters:
        of = f"of the last {counted(summary.batches, 'batch', 'batches')}"
        console.print(Text(f"{of}: {letters_hint(letters, file)}", style="yellow"), soft_wrap=True)
