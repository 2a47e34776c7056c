"""``headrace show``."""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING, Any

import click

from headrace.cli.changes_output import show_changes
from headrace.cli.dataframe_output import collect_rows, print_frame
from headrace.cli.formatting import UNKNOWN, format_count
from headrace.cli.history_output import show_row_history
from headrace.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from headrace.pipeline import Pipeline
    from headrace.progress.model import BatchProgress, TableProgress

_AS_OF = 'The table as it was: "2015-07-17 12:00:00" (UTC), or one of --versions.'


@click.command()
@click.argument("file", type=click.Path())
@click.argument("table", required=False)
@click.option("--as-of", metavar="TIMESTAMP|VERSION", help=_AS_OF)
@click.option("--since", metavar="TIMESTAMP|VERSION", help="Rows that differ from this version; see --as-of.")
@click.option("--until", metavar="TIMESTAMP|VERSION", help="With --since: compare with this version, not the newest.")
@click.option("--history", metavar="KEY", help='All known changes of one row: "7", or "id=1,region=eu".')
@click.option("--limit", type=click.IntRange(min=0), default=20, show_default=True, help="Rows to show.")
@click.option(
    "--format", "form", type=click.Choice(["table", "record", "json"]), help="A line per row, per column, JSON."
)
@click.option("--sink", metavar="NAME", help="Sink to read when there are several. Default: the first.")
@click.option("--own-columns", is_flag=True, help="Also show columns of headrace and of the table format.")
@click.option("--versions", is_flag=True, help="The table's last versions instead of its rows.")
def show(
    file: str,
    table: str | None,
    *,
    as_of: str | None,
    since: str | None,
    until: str | None,
    history: str | None,
    limit: int,
    form: str | None,
    sink: str | None,
    own_columns: bool,
    versions: bool,
) -> None:
    """Show a table as readers see it.

    TABLE is a target table, or dead_letters: the records that could not be applied. Without TABLE: list the tables.
    """
    _check_options(table, as_of, since, until, history, versions=versions, own_columns=own_columns)
    if table is None or versions:
        _show_history(file, table, sink, as_json=form == "json")
        return
    if history is not None:
        ends = {"since": since, "until": until}
        show_row_history(file, table, history, **ends, sink=sink, limit=limit, form=form or "table")
        return
    if since is not None:
        show_changes(file, table, since, until, sink=sink, limit=limit, form=form or "table")
        return
    from headrace.cli.startup import open_session
    from headrace.pipeline_reads import DEAD_LETTERS

    rows: list[list[Any]] = []
    with open_session(file, "reading") as (pipeline, spark):
        frame = _read_table(pipeline, spark, table, as_of=as_of, sink=sink, own_columns=own_columns)
        if frame is not None:
            rows = collect_rows(pipeline, frame, limit + 1)
    if frame is None:
        click.echo("there are no dead letters", err=True)
    else:
        print_frame(frame, rows, limit, form or ("record" if table == DEAD_LETTERS else "table"))


def _check_options(
    table: str | None,
    as_of: str | None,
    since: str | None,
    until: str | None,
    history: str | None,
    *,
    versions: bool,
    own_columns: bool,
) -> None:
    """Raise UsageError for options that exclude each other."""
    for name, value in (("--as-of", as_of), ("--since", since), ("--history", history)):
        if value is not None and (table is None or versions):
            raise click.UsageError(f"{name} needs a TABLE, without --versions.")
    if as_of is not None and since is not None:
        raise click.UsageError("--as-of shows a version, and --since compares two: use --until in place of --as-of.")
    if own_columns and since is not None:
        raise click.UsageError("--since compares business columns: leave out --own-columns.")
    if history is not None and (as_of is not None or own_columns):
        raise click.UsageError("--history shows changes of business columns: leave out --as-of and --own-columns.")
    if until is not None and since is None and history is None:
        raise click.UsageError("--until needs --since or --history.")


def _show_history(file: str, table: str | None, sink: str | None, *, as_json: bool) -> None:
    """Print the tables of the last batches, or the versions of one table; ``as_json``: a line of JSON for each."""
    from headrace.cli.startup import open_checkpoint

    with open_checkpoint(file) as (pipeline, spark):
        batches = pipeline.history(spark)
    if as_json:
        found = _find_tables(batches) if table is None else _find_versions(batches, table, sink)
        for batch, t in found:
            about = {
                "table": t.table,
                "sink": t.sink,
                "version": t.version,
                "batch": batch.batch,
                "started": batch.started,
            }
            click.echo(json.dumps({**about, "applied": t.applied, "late": t.late}, ensure_ascii=False))
    elif table is None:
        _print_tables(batches, file)
    else:
        _print_versions(batches, table, sink)


def _read_table(
    pipeline: Pipeline, spark: SparkSession, table: str, *, as_of: str | None, sink: str | None, own_columns: bool
) -> DataFrame | None:
    """Return the table; None for dead letters when there are none."""
    from headrace.pipeline_reads import DEAD_LETTERS
    from headrace.suggestions import did_you_mean

    if table == DEAD_LETTERS:
        return pipeline.read_dead_letters(spark)
    try:
        return pipeline.read(table, as_of=as_of, sink=sink, own_columns=own_columns, spark=spark)
    except ConfigError as error:
        known = [t.table for batch in pipeline.history(spark) for t in batch.tables]
        if known and table not in known:
            error.fix = did_you_mean(table, known)
        raise


def _print_tables(batches: list[BatchProgress], file: str) -> None:
    from headrace.cli.table_output import make_console, make_table, make_text, put
    from headrace.progress.summary import Summary

    if not batches:
        click.echo(f"no tables yet: headrace run {shlex.quote(file)}", err=True)
        return
    table = make_table("table", "sink", "last batch (UTC)", "version")
    for batch, t in _find_tables(batches):
        cells = t.table, t.sink, f"#{batch.batch}, {_format_time(batch)}", t.version or UNKNOWN
        table.add_row(*map(make_text, cells))
    console = make_console()
    put(console, table)
    if letters := Summary.of(batches[0].pipeline, batches).dead_letters:
        span = "batch" if len(batches) == 1 else f"{len(batches):,} batches"
        console.print(f"[yellow]dead_letters: {letters:,} in the last {span}[/]")


def _print_versions(batches: list[BatchProgress], name: str, sink: str | None) -> None:
    from headrace.cli.table_output import make_console, make_table, make_text, put

    known = _find_versions(batches, name, sink)
    table = make_table("version", "sink", "batch (UTC)", right=("applied", "late"))
    for batch, t in known:
        table.add_row(
            make_text(str(t.version)),
            make_text(t.sink),
            f"#{batch.batch}, {_format_time(batch)}",
            format_count(t.applied),
            format_count(t.late),
        )
    put(make_console(), table)


def _find_tables(batches: list[BatchProgress]) -> list[tuple[BatchProgress, TableProgress]]:
    """Return the newest batch of each table and sink, by name."""
    newest = {(t.table, t.sink): (batch, t) for batch in batches for t in batch.tables if not t.error}
    return [newest[key] for key in sorted(newest)]


def _find_versions(
    batches: list[BatchProgress], name: str, sink: str | None
) -> list[tuple[BatchProgress, TableProgress]]:
    """Return the batches with a version of a table, the newest first. ConfigError if there are none."""
    known = [
        (b, t) for b in reversed(batches) for t in b.tables if t.table == name and sink in (None, t.sink) and t.version
    ]
    if not known:
        raise ConfigError(f"no version of {name!r} is known", fix="without a TABLE, `headrace show` lists the tables")
    return known


def _format_time(batch: BatchProgress) -> str:
    return batch.started[:19].replace("T", " ")
