"""``headrace replay``."""

from __future__ import annotations

import click

from headrace.cli.formatting import count_noun, format_count
from headrace.control_characters import escape_controls
from headrace.sdk.reject_reason import RejectReason


@click.command()
@click.argument("file", type=click.Path())
@click.option(
    "--reason",
    type=click.Choice([reason.value for reason in RejectReason]),
    metavar="REASON",
    help="Dead letters of one reason.",
)
@click.option("--table", metavar="TABLE", help="Dead letters of one table.")
def replay(file: str, *, reason: str | None, table: str | None) -> None:
    """Apply dead letters again after their cause was fixed.

    They are applied in the order of their positions, at most once. Stop the pipeline first.
    """
    from headrace.cli.startup import open_session

    found_none = True
    with open_session(file, "replaying") as (pipeline, spark):
        for done in pipeline.replay(reason=reason, table=table, spark=spark):
            found_none = False
            again = f", {format_count(done.failed_again)} still dead letters" if done.failed_again else ""
            table_name = escape_controls(done.table)
            if done.replayed:
                click.echo(f"{table_name}: {count_noun(done.replayed, 'dead letter')} replayed{again}")
            if done.missing:
                kept = f"{count_noun(done.missing, 'dead letter')} kept"
                click.echo(f"{table_name}: {kept}: their files are missing or have fewer records", err=True)
            if done.incomplete:
                kept = f"{count_noun(done.incomplete, 'dead letter')} kept"
                why = "their original bytes are not stored (masked or too-large): read the records from the topic again"
                click.echo(f"{table_name}: {kept}: {why}", err=True)
    if found_none:
        click.echo("no matching dead letters", err=True)
