"""``headrace run``."""

from __future__ import annotations

import os
import sys
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.cli.live_screen import Screen
    from headrace.cli.run_log import TextLines
    from headrace.cli.run_totals import Totals
    from headrace.cli.signals import Stop
    from headrace.pipeline import Maintained, Pipeline, Query
    from headrace.progress.model import BatchProgress

#: Seconds between two looks at the query and at signals.
_POLL = 0.2
_TRIGGER = 'Look for changes this often: "10 seconds". Default: as the file says, else twice a second.'
_LOG_FORMAT = "Lines instead of the live screen; json: one per batch on stdout, and nothing else."


@click.command()
@click.argument("file")
@click.option("--available-now", is_flag=True, help="Apply what is there now, then end.")
@click.option("--trigger", metavar="INTERVAL", help=_TRIGGER)
@click.option("--log-format", type=click.Choice(["text", "json"]), help=_LOG_FORMAT)
def run(file: str, *, available_now: bool, trigger: str | None, log_format: str | None) -> None:
    """Apply changes until it is told to end.

    Ctrl-C and SIGTERM end it after the batch that is under way; the second time, at once. Started again, it goes on
    where it ended.
    """
    if available_now and trigger:
        raise click.UsageError("--trigger is for a run that goes on; --available-now ends by itself")
    from headrace.cli.error_report import INTERRUPTED
    from headrace.cli.run_totals import Totals
    from headrace.cli.signals import Stop
    from headrace.cli.startup import load_pipeline, start_session

    interval = _to_milliseconds(trigger) if trigger else None
    pipeline = load_pipeline(file)
    totals, stop = Totals(pipeline.name), Stop()
    view = _choose_view(log_format, totals, file)
    try:
        with view:
            spark = start_session(pipeline, view)
            query = _start(pipeline, spark, view, stop, interval=interval, available_now=available_now)
            for text in query.warnings:
                view.report(f"warning: {pipeline.redact(text)}")
            with stop.on_signals():
                _watch(query, view, stop)
    except KeyboardInterrupt:
        if stop.asked_by is None:
            raise
        os._exit(INTERRUPTED)  # the threads of the batch would be waited for
    except Exception:
        if totals.batches:
            view.print_summary()
        raise
    view.print_summary()
    with suppress(Exception):  # its JVM may be gone already
        spark.stop()


def _to_milliseconds(text: str) -> str:
    """In milliseconds: Spark does not know all of the spellings."""
    from headrace.sdk.interval import seconds_of

    return f"{round(1000 * seconds_of(text))} milliseconds"


def _choose_view(log_format: str | None, totals: Totals, file: str) -> Screen | TextLines:
    from headrace.cli.run_log import JsonLines, TextLines

    if log_format == "json":
        return JsonLines(totals, file)
    if log_format == "text" or not sys.stdout.isatty():
        return TextLines(totals, file)
    from rich.console import Console

    from headrace.cli.live_screen import Screen

    console = Console(highlight=False)
    # TERM=dumb: nothing can be drawn over there.
    return TextLines(totals, file) if console.is_dumb_terminal else Screen(totals, file, console)


def _start(
    pipeline: Pipeline,
    spark: SparkSession,
    view: Screen | TextLines,
    stop: Stop,
    *,
    interval: str | None,
    available_now: bool,
) -> Query:
    def add(progress: BatchProgress) -> None:
        try:
            view.add(progress)
        except BrokenPipeError:
            # Whoever read the lines has gone: that ends the run, and is no fault of the batch.
            sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115 - until the process ends
            stop.ask("nobody reads stdout")

    def say(done: Maintained) -> None:
        view.report(str(done))

    view.step("looking at the source")
    if available_now:
        return pipeline.start_available_now(spark, on_progress=add, on_maintenance=say)
    return pipeline.start(spark, interval, on_progress=add, on_maintenance=say)


def _watch(query: Query, view: Screen | TextLines, stop: Stop) -> None:
    """Returns when the run has ended; raises why it failed."""
    from py4j.protocol import Py4JError, Py4JJavaError

    from headrace.pipeline import SparkDiedError, spark_died

    stopper: threading.Thread | None = None
    away: str | None = None
    try:
        while not query.await_termination(_POLL):
            status = query.status
            view.show(status)
            if status.error != away:
                away = status.error
                view.report(f"{away}\n  trying again until it answers" if away else "the source answers again")
            if stop.asked_by and stopper is None:
                view.report(f"{stop.asked_by}: ending after the batch under way, if any; a second signal ends at once")
                # stop() waits for the batch; signals reach only this thread.
                stopper = threading.Thread(target=_stop, args=[query], daemon=True)
                stopper.start()
        if stopper:
            stopper.join()
    except Py4JJavaError:
        raise
    except (Py4JError, ConnectionError, SparkDiedError) as error:
        if not stop.asked_by:
            if isinstance(error, SparkDiedError):
                raise
            raise spark_died() from error
        view.report("Spark ended before its batch did: the next run repeats it")


def _stop(query: Query) -> None:
    with suppress(Exception):  # why it failed, if it did, is raised where it is watched
        query.stop()
