"""``headrace dead-letters``."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

import click

from headrace.cli.dataframe_output import collect_rows, print_frame
from headrace.sdk.reject_reason import RejectReason

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@click.command("dead-letters")
@click.argument("file", type=click.Path())
@click.option(
    "--reason",
    type=click.Choice([reason.value for reason in RejectReason]),
    metavar="REASON",
    help="Dead letters of one reason, with their bytes.",
)
@click.option("--table", metavar="TABLE", help="Dead letters of one table, with their bytes.")
@click.option("--limit", type=click.IntRange(min=0), default=20, show_default=True, help="Dead letters to show.")
@click.option(
    "--format", "form", type=click.Choice(["record", "table", "json"]), help="A line per column, per row, JSON."
)
def dead_letters(file: str, *, reason: str | None, table: str | None, limit: int, form: str | None) -> None:
    """Show the records that could not become a row.

    Counts by table and reason; with --reason or --table, each record with its bytes and location.
    """
    from headrace.cli.startup import open_session

    rows: list[list[Any]] = []
    each = bool(reason or table or form)
    with open_session(file, "reading") as (pipeline, spark):
        frame = pipeline.read_dead_letters(spark)
        if frame is not None:
            for column, wanted in (("reason", reason), ("table", table)):
                frame = frame.where(frame[column] == wanted) if wanted else frame
            frame = frame if each else _count_by_kind(frame)
            rows = collect_rows(pipeline, frame, limit + 1)
    if frame is None:
        click.echo("there are no dead letters", err=True)
    else:
        if not rows:
            click.echo("no matching dead letters", err=True)
        print_frame(frame, rows, limit, form or ("record" if each else "table"))
        if not each:
            click.echo(
                f"to show each with its bytes: headrace dead-letters {shlex.quote(file)} --reason REASON", err=True
            )


def _count_by_kind(frame: DataFrame) -> DataFrame:
    """Count dead letters by table, reason and error."""
    from pyspark.sql import functions as F

    # The file's name without its folder, and the record's number in it; for a broker, topic and partition.
    place = F.coalesce(F.substring_index("file", "/", -1), F.concat_ws("/", "topic", "partition"))
    first = F.min(F.struct("seen", "batch", place.alias("place"), "offset"))
    counts = frame.groupBy("table", "reason", "error").agg(
        F.count("*").alias("records"), first.alias("first"), F.max("seen").alias("last seen")
    )
    counts = counts.withColumns(
        {"first seen": F.col("first.seen"), "first record": F.concat_ws("/", "first.place", "first.offset")}
    )
    shown = ("table", "reason", "records", "first seen", "last seen", "first record", "error")
    return counts.orderBy("table", F.desc("records")).select(*shown)
