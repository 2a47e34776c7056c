"""Command ``headrace verify``."""

from __future__ import annotations

import json
import os
from contextlib import ExitStack
from typing import TYPE_CHECKING

import click

from headrace.sdk.commands import BlockCommand
from headrace.sdk.options import escape_controls, seconds_of
from headrace_verify.verify_config import VerifyConfig

if TYPE_CHECKING:
    from headrace_verify.table_verification import Verified, VerifyOptions


_STEP = "comparing the tables"


class _Percent(click.ParamType):  # type: ignore[type-arg]  # generic in newer releases of click only
    """Percentage such as ``1%``."""

    name = "percent"

    def convert(self, value: str | float, param: click.Parameter | None, ctx: click.Context | None) -> float:
        try:
            part = float(value.removesuffix("%")) / 100 if isinstance(value, str) else value
        except ValueError:
            part = 0
        if not 0 < part <= 1:
            self.fail(f"{value!r} is no percentage above 0%, such as 1%", param, ctx)
        return part


def _verify(
    file: str,
    tables: tuple[str, ...],
    *,
    keys: bool,
    as_json: bool,
    sample: float,
    timeout: float,
    sink: str | None,
    against: str | None,
    against_sink: str | None,
    repair: bool,
) -> None:
    """Compare tables with their source database, without stopping either; or with the tables of another pipeline or sink.

    TABLE is a target table; without one, all tables are compared. Rows that change meanwhile are looked at again after the pipeline has
    applied the changes. The exit code is 0 for equal tables, 1 for differences, and 2 if a table could not be verified.
    """
    from headrace_verify.table_verification import VerifyOptions
    from headrace_verify.verify_report import choose_exit_code, describe_all

    options = VerifyOptions(sample, timeout, sink, keys=keys or as_json)
    if against or against_sink:
        if repair:
            raise click.UsageError("--repair reads rows of the database again: leave out --against and --against-sink.")
        results = _compare_stored(file, against or file, against_sink or sink, tables, options)
    else:
        results = _compare_with_database(file, tables, options, repair=repair)
    if as_json:
        click.echo(json.dumps(describe_all(results), ensure_ascii=False))
    else:
        _show(results, keys=keys)
    click.get_current_context().exit(choose_exit_code(results))


def _compare_with_database(
    file: str, tables: tuple[str, ...], options: VerifyOptions, *, repair: bool
) -> list[Verified]:
    from headrace_verify.load_limit import LoadLimit
    from headrace_verify.repair import Repair
    from headrace_verify.source_connection import open_source
    from headrace_verify.table_verification import DatabaseVerifier

    config, others = verify.load(file)
    with ExitStack() as stack:
        database, find_form = stack.enter_context(open_source(file, config, others))
        load = LoadLimit(database, config.max_load, seconds_of(config.max_load_timeout), _report)
        pipeline, spark = stack.enter_context(verify.open_session(file, _STEP))
        verifier = DatabaseVerifier(pipeline, spark, database, find_form, options, load.wait)
        results = list(verifier.verify(tables))
        if repair:
            Repair(database, options.timeout, _report).repair(results, pipeline, spark)
        return results


def _report(line: str) -> None:
    click.echo(escape_controls(line), err=True)


def _compare_stored(
    file: str, against: str, against_sink: str | None, tables: tuple[str, ...], options: VerifyOptions
) -> list[Verified]:
    from headrace_verify.stored_verification import OtherTables, StoredVerifier

    is_same = os.path.realpath(against) == os.path.realpath(file)
    if is_same and (options.sink is None or against_sink == options.sink):
        raise click.UsageError("Name another file, or two sinks of FILE with --sink and --against-sink.")
    files = [file] if is_same else [file, against]
    with verify.open_pipelines(files, _STEP) as (pipelines, spark):
        other = OtherTables(pipelines[-1], against, against_sink)
        return list(StoredVerifier(pipelines[0], spark, other, options).verify(tables))


def _show(results: list[Verified], *, keys: bool) -> None:
    from headrace_verify.verify_report import format_table, list_keys, list_notes

    for line in format_table(results):
        click.echo(escape_controls(line))
    for result in results:
        for line in [*list_notes(result), *(list_keys(result) if keys else ())]:
            click.echo(escape_controls(line))
        if result.error:
            click.secho(escape_controls(f"error: {result.table}: {result.error.what}"), err=True, fg="red")
            click.echo(escape_controls(f"  fix: {result.error.fix}"), err=True)


verify = BlockCommand(
    "verify",
    VerifyConfig,
    is_optional=True,
    callback=_verify,
    help=_verify.__doc__,
    params=[
        click.Argument(["file"], type=click.Path()),
        click.Argument(["tables"], nargs=-1, metavar="[TABLE]..."),
        click.Option(["--keys"], is_flag=True, help="Also print the key of each row that differs, and its columns."),
        click.Option(["--json", "as_json"], is_flag=True, help="Print one JSON object."),
        click.Option(
            ["--sample"], type=_Percent(), default="100%", show_default=True, help="Part of the keys to compare."
        ),
        click.Option(
            ["--timeout"],
            type=click.FloatRange(min=0),
            default=300,
            show_default=True,
            help="Seconds to wait until the pipeline has applied the changes.",
        ),
        click.Option(["--sink"], metavar="NAME", help="Sink to read when there are several. Default: the first."),
        click.Option(
            ["--repair"], is_flag=True, help="Let the connector read the rows again that are missing or different."
        ),
        click.Option(
            ["--against"], metavar="OTHER_FILE", help="Compare with the tables of another pipeline, not the database."
        ),
        click.Option(
            ["--against-sink"], metavar="NAME", help="Sink to compare with, of OTHER_FILE or of FILE. Default: --sink."
        ),
    ],
)
