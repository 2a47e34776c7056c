"""``headrace doctor``."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from headrace.cli.formatting import format_json

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.doctor.examination import Check, Result
    from headrace.findings import Checkup
    from headrace.pipeline import Pipeline
    from headrace.sdk.commands import BlockCommand


@click.command()
@click.argument("file", type=click.Path())
@click.option(
    "--spark",
    "uses_spark",
    is_flag=True,
    help="Also make the checks that need Spark: logins, topics, tables, maintenance.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
@click.option("--bundle", metavar="PATH", help="Write a ZIP archive for a bug report, without secrets and rows.")
@click.option("--log", "log_file", metavar="PATH", help="Log file whose last lines are a part of the archive.")
@click.pass_context
def doctor(
    ctx: click.Context, file: str, *, uses_spark: bool, as_json: bool, bundle: str | None, log_file: str | None
) -> None:
    """Look at everything, and report what is wrong with its fix.

    Versions, Java, jars, memory, disks, permissions, the file, its plugins and their servers, clocks, the checkpoint, tables, runs, and
    the source database if the file has `connect:`. Nothing is changed. docs/doctor.md lists the findings by name.

    The exit code is 1 if there are errors.
    """
    from headrace.cli.doctor_output import print_report
    from headrace.cli.error_report import hide_secrets
    from headrace.cli.startup import Spinner
    from headrace.doctor.bundle import Bundle
    from headrace.doctor.diagnosis import Diagnosis
    from headrace.doctor.report_json import describe_report

    if log_file and not bundle:
        raise click.UsageError("--log needs --bundle")
    with Spinner() as spinner:
        start = partial(_start_session, reporter=spinner) if uses_spark else None
        diagnosis = Diagnosis(file, partial(_load, ctx, file), partial(_list_blocks, ctx, file), start, spinner.step)
        diagnosis.make()
        diagnosis.report = diagnosis.report.redact(hide_secrets)
    if bundle:
        Bundle(diagnosis, hide_secrets, log_file).write(bundle)
    if as_json:
        click.echo(format_json(describe_report(diagnosis.report), indent=2))
    else:
        print_report(diagnosis.report, bundle=bundle, uses_spark=uses_spark)
    ctx.exit(int(diagnosis.report.has_errors))


def _load(ctx: click.Context, file: str) -> Pipeline:
    """Return the pipeline of a file, in a thread of a check."""
    from headrace.cli.startup import load_pipeline

    with ctx.scope(cleanup=False):
        return load_pipeline(file)


def _start_session(pipeline: Pipeline, reporter: Any) -> SparkSession:
    from headrace.cli.startup import start_session
    from headrace.runtime.java.jvm import without_new_archive

    with without_new_archive():
        spark = start_session(pipeline, reporter)
    click.get_current_context().call_on_close(spark.stop)
    return spark


def _list_blocks(ctx: click.Context, file: str, checkup: Checkup) -> Iterator[Check]:
    """Yield the checks of the commands that have a block in the file."""
    from headrace.config.command_blocks import list_block_commands
    from headrace.config.yaml_document import load
    from headrace.doctor.examination import Check
    from headrace.errors import ConfigError

    try:
        data = load(file).data
    except ConfigError:  # reported as such
        return
    for key, command in list_block_commands().items():
        if isinstance(data, dict) and key in data:
            yield Check(f"block {key}", partial(_diagnose_block, ctx, command, file, checkup), limit=_BLOCK_LIMIT)


#: Seconds for a block, whose servers may be a database and a REST API.
_BLOCK_LIMIT = 90.0


def _diagnose_block(ctx: click.Context, command: BlockCommand, file: str, checkup: Checkup) -> Iterator[Result]:
    from headrace.doctor.connections import check_findings
    from headrace.http_client import time_listener

    time_listener.set(checkup.note_time)
    with ctx.scope(cleanup=False):  # The check has a thread of its own.
        yield from check_findings(command.diagnose(file, checkup), f"block {command.block}")
