"""Startup of commands: from a pipeline file to a Spark session, with progress for the user."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, Self

import click

from headrace.cli.error_report import redact_with
from headrace.cli.signals import listen_again
from headrace.control_characters import escape_controls

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from rich.status import Status

    from headrace.pipeline import Pipeline
    from headrace.runtime.reporter import Reporter


class Spinner:
    """Temporary status line on stderr; silent when stderr is not a terminal."""

    def __init__(self) -> None:
        self._status: Status | None = None

    def __enter__(self) -> Self:
        if sys.stderr.isatty():
            from rich.console import Console

            self._status = Console(stderr=True, highlight=False).status("")
            self._status.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._status:
            self._status.stop()

    def report(self, text: str) -> None:
        if self._status:
            from rich.markup import escape

            self._status.update(escape(escape_controls(text.strip())))

    step = report


def load_pipeline(file: str, options: Mapping[str, Mapping[str, Any]] | None = None) -> Pipeline:
    """Return the pipeline of a file; errors after this call show none of its secrets. ``options`` replace those of its blocks."""
    from headrace.pipeline import Pipeline

    pipeline = Pipeline.from_file(file, options)
    redact_with(pipeline.redact)
    return pipeline


def start_session(pipeline: Pipeline, reporter: Reporter, others: Sequence[Pipeline] = ()) -> SparkSession:
    """Return a session for the pipeline, and for others, after the checks that need no session."""
    from headrace.pipeline import check_before_session

    for checked in (pipeline, *others):
        check_before_session(checked)
    with _jvm_output_on_stderr():
        spark = pipeline.session(reporter, others)
    listen_again()
    return spark


@contextmanager
def open_session(file: str, step: str) -> Iterator[tuple[Pipeline, SparkSession]]:
    """Yield the pipeline of a file and a session for it. On a terminal a spinner shows ``step`` until the block ends.

    The session ends with the command, so that the rows that the block has read can be printed first.
    """
    with open_pipelines([file], step) as ([pipeline], spark):
        yield pipeline, spark


@contextmanager
def open_pipelines(files: Sequence[str], step: str) -> Iterator[tuple[list[Pipeline], SparkSession]]:
    """Yield the pipelines of several files and one session for all, as ``open_session`` does."""
    from headrace.pipeline import redact_errors_of
    from headrace.runtime.java.jvm import without_new_archive

    with Spinner() as spinner, ExitStack() as stack:
        pipelines = [load_pipeline(file) for file in files]
        with without_new_archive():
            spark = start_session(pipelines[0], spinner, pipelines[1:])
        spinner.step(step)
        for pipeline in pipelines:
            stack.enter_context(redact_errors_of(pipeline))
        yield pipelines, spark
    click.get_current_context().call_on_close(spark.stop)


@contextmanager
def open_checkpoint(file: str) -> Iterator[tuple[Pipeline, SparkSession | None]]:
    """Load the pipeline of a file to read its progress; a session starts only when nothing else can read the checkpoint."""
    from headrace.runtime.java.jvm import without_new_archive

    spark = None
    with Spinner() as spinner:
        pipeline = load_pipeline(file)
        if pipeline.needs_spark_for_status:
            click.echo(f"starting Spark: only Hadoop can read the checkpoint {pipeline.checkpoint}", err=True)
            with without_new_archive():
                spark = start_session(pipeline, spinner)
        spinner.step("reading the checkpoint")
        yield pipeline, spark
    if spark:
        click.get_current_context().call_on_close(spark.stop)


@contextmanager
def _jvm_output_on_stderr() -> Iterator[None]:
    """Redirect output of a JVM in this process (some libraries print) to stderr, unless stdout is a terminal."""
    if sys.stdout.isatty():
        yield
        return
    sys.stdout.flush()
    stdout = os.dup(1)
    try:
        os.dup2(2, 1)
        yield
    finally:
        sys.stdout.flush()
        os.dup2(stdout, 1)
        os.close(stdout)
