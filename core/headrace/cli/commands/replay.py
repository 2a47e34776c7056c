"""``headrace replay``."""

from __future__ import annotations

import click

from headrace.cli.formatting import count_noun, escape_controls, format_count


@click.command()
@click.argument("file")
@click.option("--reason", metavar="REASON", help="Dead letters of one reason.")
@click.option("--table", metavar="TABLE", help="Dead letters of one table.")
def replay(file: str, *, reason: str | None, table: str | None) -> None:
    """Give dead letters to the pipeline again, after what was wrong is mended.

    They come into their tables in the order of their positions, and never twice. Stop the pipeline first.
    """
    from headrace.cli.startup import open_session

    nothing = True
    with open_session(file, "replaying") as (pipeline, spark):
        for done in pipeline.replay(reason=reason, table=table, spark=spark):
            nothing = False
            again = f", {format_count(done.failed_again)} still dead" if done.failed_again else ""
            table_name = escape_controls(done.table)
            if done.replayed:
                click.echo(f"{table_name}: {count_noun(done.replayed, 'dead letter')} replayed{again}")
            if done.missing:
                stay = f"{count_noun(done.missing, 'dead letter')} left as they are"
                click.echo(
                    f"{table_name}: {stay}: the files that they came from are gone, or have fewer records", err=True
                )
    if nothing:
        click.echo("there are no such dead letters", err=True)
