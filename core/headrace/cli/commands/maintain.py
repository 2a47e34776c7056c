"""``headrace maintain``."""

from __future__ import annotations

import click


@click.command()
@click.argument("file", type=click.Path())
@click.argument("tables", nargs=-1, metavar="[TABLE]...")
@click.option("--dry-run", is_flag=True, help="Only report what is due.")
def maintain(file: str, tables: tuple[str, ...], *, dry_run: bool) -> None:
    """Maintain tables now.

    Compacts files and logs, rewrites deletes, and expires versions.

    A run maintains its tables between batches, unless `maintenance: {enabled: false}` disables it. Both may be active at the same
    time: after a conflicting commit one of them retries or skips the step.
    """
    from headrace.cli.startup import open_session
    from headrace.control_characters import escape_controls

    is_idle, has_failed = True, False
    with open_session(file, "reading the tables") as (pipeline, spark):
        for done in pipeline.maintain(tables, dry_run=dry_run, spark=spark):
            is_idle, has_failed = False, has_failed or done.error is not None
            click.echo(escape_controls(str(done)), err=done.error is not None)
    if is_idle:
        click.echo("nothing is due")
    if has_failed:
        click.get_current_context().exit(1)
