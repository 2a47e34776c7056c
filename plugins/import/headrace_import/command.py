"""Command ``headrace import``."""

from __future__ import annotations

from pathlib import Path

import click

#: File with the JSON Schema of pipeline files, for editors.
_SCHEMA = "headrace.schema.json"


@click.command()
@click.argument("paths", nargs=-1, required=True, metavar="PATH...", type=click.Path(path_type=Path))
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), help="Write the pipeline file here, not to the screen."
)
@click.option("--name", help="Name of the pipeline. Default: the name of the connector or the file.")
@click.option("--bootstrap-servers", help="Brokers of Kafka, if no file names them: HOST:PORT, comma separated.")
@click.option(
    "--keep-transforms",
    is_flag=True,
    help="Source connectors keep writing topics with their transforms; import only those of sink connectors.",
)
@click.option("--take-over", is_flag=True, help="Hudi Streamer: continue its tables, and load no new ones.")
@click.option(
    "--check",
    "runs_check",
    is_flag=True,
    help="Run `headrace check` on the file of --output, with --connect if tables are taken over.",
)
@click.pass_context
def import_files(
    context: click.Context,
    paths: tuple[Path, ...],
    output: Path | None,
    name: str | None,
    bootstrap_servers: str | None,
    *,
    keep_transforms: bool,
    take_over: bool,
    runs_check: bool,
) -> None:
    """Write a pipeline file from existing configuration files.

    Connectors of Kafka Connect, properties of its workers, Debezium Server, Flink CDC, and jobs of Hudi Streamer. All files
    together become one pipeline. A report on stderr lists every option that is not in the pipeline file, the reason, and what to do.
    """
    from headrace_import.pipeline_import import ImportOptions, import_paths

    if runs_check and output is None:
        raise click.UsageError("--check requires --output")
    result = import_paths(paths, ImportOptions(name, bootstrap_servers, keep_transforms, take_over))
    if output is None:
        click.echo(result.pipeline, nl=False)
    else:
        _write(output, result.pipeline)
        # The schema has the options of the plugins that are installed here, so it is next to the file.
        context.invoke(_find_command(context, "schema"), output=output.with_name(_SCHEMA))
    if result.report.findings:
        click.echo(str(result.report), err=True)
    if output is not None:
        click.echo(f"written: {output}, and {_SCHEMA} for editors", err=True)
    if runs_check:
        context.invoke(_find_command(context, "check"), file=str(output), connect=take_over)


def _write(output: Path, pipeline: str) -> None:
    """Write a pipeline file that names its schema. ConfigError if the file exists."""
    from headrace.sdk import ConfigError

    try:
        with output.open("x", encoding="utf-8") as file:
            file.write(f"# yaml-language-server: $schema={_SCHEMA}\n{pipeline}")
    except FileExistsError:
        fix = "name another file, or remove it"
        raise ConfigError("the file exists already", where=str(output), fix=fix) from None


def _find_command(context: click.Context, name: str) -> click.Command:
    """Return a command of the core."""
    program = context.find_root()
    assert isinstance(program.command, click.Group)
    command = program.command.get_command(program, name)
    assert command is not None
    return command
