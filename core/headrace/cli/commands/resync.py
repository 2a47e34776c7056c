"""``headrace resync``."""

from __future__ import annotations

import click

from headrace.cli.formatting import count_noun


@click.command()
@click.argument("file")
@click.argument("table")
@click.option("--now", is_flag=True, help="Even if the snapshot has not come to its end, or has dead letters.")
def resync(file: str, table: str, *, now: bool) -> None:
    """Remove the rows of a table that its newest snapshot does not have.

    What a database deletes while nobody listens is told by no event. After a new snapshot of the whole table the rows that
    it has not, and that are older, are those. Let the pipeline apply all of the snapshot, and stop it first.
    """
    from headrace.cli.startup import open_session

    with open_session(file, "removing what the snapshot does not have") as (pipeline, spark):
        done = pipeline.resync(table, now=now, spark=spark)
    for item in done:
        removed = count_noun(item.removed, "row")
        click.echo(
            f"{item.table}, {item.sink}: {removed} removed, older than the snapshot of batch {item.batch}, {item.seen}"
        )
