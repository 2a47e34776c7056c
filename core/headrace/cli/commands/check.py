"""``headrace check``."""

from __future__ import annotations

import click


@click.command()
@click.argument("file", type=click.Path())
@click.option("--connect", is_flag=True, help="Also try brokers, registry, topics, credentials and sinks.")
@click.option("--source", is_flag=True, help="First check the source database for settings that lose changes.")
@click.pass_context
def check(ctx: click.Context, file: str, *, connect: bool, source: bool) -> None:
    """Check everything that can be checked before a run.

    The file, its plugins and references, Java, jars, paths, and the resulting tables. Nothing is written, except that --connect
    creates and removes a file in each folder to which a run would write.
    """
    from headrace.cli.startup import open_session
    from headrace.cli.table_output import make_console, make_table, make_text, put

    if source:
        _check_source(ctx, file)
    with open_session(file, "checking the source and the sinks") as (pipeline, spark):
        items = pipeline.check(spark, connect=connect)
    table = make_table("what", "found")
    # A schema registry for both keys and values is checked twice and shown once.
    for item in {(item.what, item.found): item for item in items}.values():
        style = "red" if item.error else "yellow" if item.what == "warning" else ""
        failed = "FAILED: " if item.error else ""
        table.add_row(make_text(item.what), make_text(failed + item.found, keep_lines=True), style=style)
    console = make_console()
    put(console, table)
    errors = [item.error for item in items if item.error]
    if errors:
        raise errors[0]
    warned = any(item.what == "warning" for item in items)
    console.print(
        make_text(f"{file} can be run{', with the warnings above' if warned else ''}", "yellow" if warned else "green")
    )


def _check_source(ctx: click.Context, file: str) -> None:
    """Run the preflights of the commands that have a block in the file. ConfigError without one."""
    from headrace.config.command_blocks import list_block_commands
    from headrace.config.yaml_document import load
    from headrace.errors import ConfigError

    document = load(file)
    keys = document.data if isinstance(document.data, dict) else {}
    groups = {key: group for key, group in list_block_commands().items() if isinstance(group, click.Group)}
    preflights = {key: group.commands["preflight"] for key, group in groups.items() if "preflight" in group.commands}
    found = [command for key, command in preflights.items() if key in keys]
    if not found:
        fix = "leave out --source, or add " + " or ".join(f"`{key}:`" for key in preflights)
        raise ConfigError("no block of the file names a source database", where=file, fix=fix)
    for command in found:
        ctx.invoke(command, file=file)
