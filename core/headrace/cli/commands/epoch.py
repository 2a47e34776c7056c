"""``headrace epoch``."""

from __future__ import annotations

import click


@click.command()
@click.argument("file")
@click.option("--reason", default="", help="Why, for whoever reads the checkpoint later.")
def epoch(file: str, *, reason: str) -> None:
    """Say that the database begins its positions anew.

    After a restore, a failover or a move to another server a database counts its log from another place, and its changes
    would lose against the rows that are there. From the next batch on every change is newer than all before. Stop the
    pipeline first, and let it apply what the old database wrote.
    """
    from headrace.cli.startup import open_session

    with open_session(file, "raising the epoch") as (pipeline, spark):
        raised = pipeline.raise_epoch(reason, spark)
    click.echo(f"epoch {raised.number}: from batch {raised.from_batch} on every change is newer than all before")
