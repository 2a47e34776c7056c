"""``headrace resync``."""

from __future__ import annotations

import click

from headrace.cli.formatting import count_noun


@click.command()
@click.argument("file", type=click.Path())
@click.argument("table")
@click.option("--now", is_flag=True, help="Resync even if the snapshot is incomplete or has dead letters.")
def resync(file: str, table: str, *, now: bool) -> None:
    """Remove rows that a table's newest snapshot does not have.

    Deletes while the connector was stopped have no event. After a new snapshot of the whole table, older rows that the snapshot does
    not have are deleted rows. First run the pipeline until it has applied the complete snapshot, then stop it.
    """
    from headrace.cli.startup import open_session

    with open_session(file, "removing rows that the snapshot does not have") as (pipeline, spark):
        done = pipeline.resync(table, now=now, spark=spark)
    for item in done:
        removed = count_noun(item.removed, "row")
        click.echo(
            f"{item.table}, {item.sink}: {removed} removed, older than the snapshot of batch {item.batch}, {item.seen}"
        )
