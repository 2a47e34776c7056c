"""``headrace epoch``."""

from __future__ import annotations

import click


@click.command()
@click.argument("file", type=click.Path())
@click.option("--reason", default="", help="Reason, stored in the checkpoint.")
def epoch(file: str, *, reason: str) -> None:
    """Declare that the database restarted its positions.

    After a restore, a failover or a migration to another server, log positions start at other values, and the stored rows would override new
    changes. From the next batch on, all changes are newer than earlier ones. Before that, run the pipeline
    until it has applied the old database's changes, then stop it.
    """
    from headrace.cli.startup import open_session

    with open_session(file, "raising the epoch") as (pipeline, spark):
        raised = pipeline.raise_epoch(reason, spark)
    click.echo(f"epoch {raised.number}: all changes from batch {raised.from_batch} on are newer than earlier ones")
