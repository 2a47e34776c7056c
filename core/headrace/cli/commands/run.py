"""``headrace run``."""

from __future__ import annotations

import os
import sys
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import SparkSession

    from headrace.cli.live_screen import Screen
    from headrace.cli.run_log import TextLines
    from headrace.cli.run_totals import Totals
    from headrace.cli.signals import Stop
    from headrace.pipeline import Maintained, Pipeline, Query
    from headrace.progress.model import BatchProgress
    from headrace.progress.status import Status

#: Seconds between two polls of the query and of signals.
_POLL = 0.2
_TRIGGER = 'Interval between batches: "10 seconds". Default: the trigger of the pipeline file, or half a second.'
_SERVE = "Serve metrics, probes and a page of the run there. Replaces the `address` under `serve:` in the file."
_LOG_FORMAT = (
    "Log lines instead of the live screen; json: one line per batch on stdout, and an error as one line on stderr."
)


@click.command()
@click.argument("file", type=click.Path())
@click.option("--available-now", is_flag=True, help="Apply the available changes, then exit.")
@click.option("--trigger", metavar="INTERVAL", help=_TRIGGER)
@click.option("--serve", metavar="HOST:PORT", help=_SERVE)
@click.option("--log-format", type=click.Choice(["text", "json"]), help=_LOG_FORMAT)
def run(file: str, *, available_now: bool, trigger: str | None, serve: str | None, log_format: str | None) -> None:
    """Apply changes until the run is stopped.

    Ctrl-C and SIGTERM stop it after the current batch; the second signal stops it immediately. The next run continues where this one
    ended.
    """
    if available_now and trigger:
        raise click.UsageError("--trigger needs a continuous run; it cannot be combined with --available-now")
    from headrace.cli.error_report import INTERRUPTED, report_as_json
    from headrace.cli.run_totals import Totals
    from headrace.cli.signals import Stop
    from headrace.cli.startup import load_pipeline, start_session

    if log_format == "json":
        report_as_json()
    interval = _to_milliseconds(trigger) if trigger else None
    pipeline = load_pipeline(file, {"serve": {"address": serve}} if serve else None)
    totals, stop = Totals(pipeline.name), Stop()
    view = _choose_view(log_format, totals, file)
    query: Query | None = None
    try:
        with view:
            spark = start_session(pipeline, view)
            query = _start(pipeline, spark, view, stop, interval=interval, available_now=available_now)
            warnings = _Warnings(query.warnings, lambda text: view.report(f"warning: {pipeline.redact(text)}"))
            warnings.report()
            with stop.on_signals():
                try:
                    _watch(query, view, stop, warnings)
                finally:
                    warnings.report()
    except KeyboardInterrupt:
        view.report(_describe_interruption(query.status if query else None))
        if stop.requested_by is None:
            raise
        os._exit(INTERRUPTED)  # a normal exit would wait for the threads of the batch
    except Exception:
        if totals.batches:
            view.print_summary()
        raise
    view.print_summary()
    with suppress(Exception):  # its JVM may have ended
        spark.stop()


def _to_milliseconds(text: str) -> str:
    """Return the interval in milliseconds: Spark does not support all notations."""
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
    # TERM=dumb: the terminal cannot redraw lines.
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
    def show(stream: str, call: Callable[[], None]) -> None:
        try:
            call()
        except BrokenPipeError:
            # The reader of the pipe has closed it: the run ends, and the batch succeeds.
            setattr(sys, stream, open(os.devnull, "w", encoding="utf-8"))  # noqa: PTH123, SIM115 - until the process ends
            stop.request(f"{stream} was closed")

    def add(progress: BatchProgress) -> None:
        show("stdout", lambda: view.add(progress))

    def say(done: Maintained) -> None:
        show("stderr", lambda: view.report(str(done)))

    view.step("reading the source")
    if available_now:
        return pipeline.start_available_now(spark, on_progress=add, on_maintenance=say)
    return pipeline.start(spark, interval, on_progress=add, on_maintenance=say)


class _Warnings:
    """Warnings of a run. Observers add some while it is active."""

    def __init__(self, texts: Sequence[str], report: Callable[[str], None]) -> None:
        self._texts, self._report, self._count = texts, report, 0

    def report(self) -> None:
        """Report each warning once."""
        new = self._texts[self._count :]
        self._count += len(new)
        for text in new:
            self._report(text)


def _watch(query: Query, view: Screen | TextLines, stop: Stop, warnings: _Warnings) -> None:
    """Wait until the run has ended; raise its error when it failed."""
    from py4j.protocol import Py4JError, Py4JJavaError

    from headrace.pipeline import SparkDiedError, spark_died

    stopper: threading.Thread | None = None
    trouble: str | None = None
    try:
        while not query.await_termination(_POLL):
            status = query.status
            view.show(status)
            warnings.report()
            if (kind := _kind_of(status)) != trouble:  # Repeated retries of one error are one line.
                view.report(_describe_trouble(status, trouble))
                trouble = kind
            if stop.requested_by and stopper is None:
                view.report(f"{stop.requested_by}: stopping after the current batch; a second signal stops immediately")
                # stop() waits for the batch; signals reach only this thread.
                stopper = threading.Thread(target=_stop, args=[query], daemon=True)
                stopper.start()
        if stopper:
            stopper.join()
    except Py4JJavaError:
        raise
    except (Py4JError, ConnectionError, SparkDiedError) as error:
        if not stop.requested_by:
            if isinstance(error, SparkDiedError):
                raise
            raise spark_died() from error
        view.report("Spark ended during a batch: the next run repeats it")


def _describe_trouble(status: Status, before: str | None) -> str:
    """Return the error that a run retries, or that it is over. ``before``: kind of the error before."""
    from headrace.progress.status import SINK_ERROR

    is_sink = (_kind_of(status) or before or "").startswith(SINK_ERROR)
    if status.error is None:
        return "the sink succeeds again" if is_sink else "the source answers again"
    return f"{status.error}\n  {'retrying' if is_sink else 'retrying until it answers'}"


def _kind_of(status: Status) -> str | None:
    """Return the kind of the error that a run retries, without the details that differ from one attempt to the next."""
    return ":".join(status.message.split(":")[:2]) if status.error else None


def _describe_interruption(status: Status | None) -> str:
    """Return the effect of an interruption on the current batch. ``status``: None before the run started."""
    if status is None:
        return "interrupted before the first batch: nothing was read"
    if status.applying is None:
        return "stopped immediately, between two batches: the next run continues here"
    return f"stopped immediately: batch {status.applying} was interrupted, and the next run repeats it; nothing is lost"


def _stop(query: Query) -> None:
    with suppress(Exception):  # await_termination raises the error
        query.stop()
