"""``headrace maintain``."""

from __future__ import annotations

import click


@click.command()
@click.argument("file")
@click.argument("tables", nargs=-1, metavar="[TABLE]...")
@click.option("--dry-run", is_flag=True, help="Say what is due, and do nothing.")
def maintain(file: str, tables: tuple[str, ...], *, dry_run: bool) -> None:
    """Do what keeps tables quick, now: compact files and logs, rewrite deletes, expire versions.

    A run does this by itself between its batches, unless `maintenance: {enabled: false}` says that it should not. Both may
    go on at once: of two that commit one tries again, or leaves it to the other.
    """
    from headrace.cli.formatting import escape_controls
    from headrace.cli.startup import open_session

    is_idle, has_failed = True, False
    with open_session(file, "looking at the tables") as (pipeline, spark):
        for done in pipeline.maintain(tables, dry_run=dry_run, spark=spark):
            is_idle, has_failed = False, has_failed or done.error is not None
            click.echo(escape_controls(str(done)), err=done.error is not None)
    if is_idle:
        click.echo("nothing is due")
    if has_failed:
        click.get_current_context().exit(1)
