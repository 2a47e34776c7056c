"""``headrace check``."""

from __future__ import annotations

import click


@click.command()
@click.argument("file")
def check(file: str) -> None:
    """Look at everything that can be known before a run.

    The file, its plugins and references, Java, jars, paths, and the tables that come out. Nothing is written.
    """
    from rich.text import Text

    from headrace_cli.start import Spinner, opened, started
    from headrace_cli.tables import plain_table, put, stdout

    with Spinner() as spinner:
        pipeline = opened(file)
        spark = started(pipeline, spinner)
        spinner.doing("looking at the source and the sinks")
        items = pipeline.check(spark)
    table = plain_table("what", "found")
    for item in items:
        table.add_row(Text(pipeline.redact(item.what)), Text(pipeline.redact(item.found)))
    console = stdout()
    put(console, table)
    console.print(Text(f"{file} can be run", style="green"))
    spark.stop()
