"""``headrace replay``."""

from __future__ import annotations

import click

from headrace.cli.formatting import count, counted


@click.command()
@click.argument("file")
@click.option("--reason", metavar="REASON", help="Dead letters of one reason.")
@click.option("--table", metavar="TABLE", help="Dead letters of one table.")
def replay(file: str, *, reason: str | None, table: str | None) -> None:
    """Give dead letters to the pipeline again, after what was wrong is mended.

    They come into their tables in the order of their positions, and never twice. Stop the pipeline first.
    """
    from headrace.cli.startup import Spinner, opened, started
    from headrace.engine.replay import replay as replayed

    nothing = True
    with Spinner() as spinner:
        pipeline = opened(file)
        spark = started(pipeline, spinner)
        spinner.doing("replaying")
        for done in replayed(pipeline.plan, spark, reason=reason, table=table):
            nothing = False
            again = f", {count(done.again)} still dead" if done.again else ""
            if done.letters:
                click.echo(f"{done.table}: {counted(done.letters, 'dead letter')} replayed{again}")
            if done.gone:
                stay = f"{counted(done.gone, 'dead letter')} left as they are"
                click.echo(
                    f"{done.table}: {stay}: the files that they came from are gone, or have fewer records", err=True
                )
    if nothing:
        click.echo("there are no such dead letters", err=True)
    spark.stop()
