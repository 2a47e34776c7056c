"""Log of a run without a terminal: a line per batch and table, or one JSON line per batch."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Self

import click

from headrace.cli.formatting import UNKNOWN, count_noun, escape_json, format_count, format_duration, format_now
from headrace.cli.run_totals import TableTotal, Totals
from headrace.control_characters import escape_controls

if TYPE_CHECKING:
    from headrace.progress.model import BatchProgress, TableProgress
    from headrace.progress.rates import TableStatus
    from headrace.progress.status import Status


class TextLines:
    """Text log of a run: batches on stdout, everything else on stderr. Lines on stderr start with the time, as batches do."""

    def __init__(self, totals: Totals, file: str) -> None:
        self._totals, self._file = totals, file

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def report(self, text: str) -> None:
        now = format_now()
        for line in escape_controls(text, keep_lines=True).split("\n"):
            click.echo(f"{now} {line}", err=True)

    step = report

    def show(self, status: Status) -> None:
        pass

    def add(self, progress: BatchProgress) -> None:
        for sentence in self._totals.add(progress):
            self.report(escape_controls(sentence))
        for table in progress.tables:
            line = f"{progress.started[:19]}Z {progress.pipeline} batch {progress.batch}  {_describe_outcome(table)}"
            click.echo(escape_controls(line))

    def print_summary(self) -> None:
        for line in summarize(self._totals, self._file):
            click.echo(escape_controls(line))


class JsonLines(TextLines):
    """JSON log of a run: only batches on stdout. A failed run ends with a JSON line on stderr."""

    def add(self, progress: BatchProgress) -> None:
        self._totals.add(progress)
        click.echo(escape_json(progress.json()))

    def print_summary(self) -> None:
        for line in summarize(self._totals, self._file):
            self.report(escape_controls(line))


def describe_totals(totals: Totals) -> str:
    """Return a line such as ``artists: 2 batches in 6.7 s (20 s with startup)``."""
    if not totals.batches:
        return f"{totals.pipeline}: nothing new in {format_duration(totals.age)}"
    return f"{totals.pipeline}: {count_noun(totals.batches, 'batch', 'batches')} in {format_duration(totals.seconds)} ({format_duration(totals.age)} with startup)"


def list_hints(totals: Totals, file: str) -> list[str]:
    """Return the hints that follow the summary of a run."""
    lines = []
    if totals.unrouted:
        lines.append(f"skipped, no rule of `tables:` matches: {', '.join(totals.unrouted)}")
    if totals.left_out:
        topics = [
            f"{topic} ({count_noun(n, 'record')}, {totals.notices[topic]})" for topic, n in totals.left_out.items()
        ]
        lines.append(f"skipped, topics without rows: {', '.join(topics)}")
    if totals.dead_letters:
        lines.append(hint_at_dead_letters(totals.dead_letters, file))
    return lines


def hint_at_dead_letters(number: int, file: str) -> str:
    """Return the number of dead letters and the command that shows them."""
    return f"{count_noun(number, 'dead letter')}, stored with their bytes: headrace dead-letters {shlex.quote(file)}"


def describe_backlog(table: TableStatus) -> str:
    """Return the backlog of a failed table: ``31 batches``; a dash when it is unknown."""
    return UNKNOWN if table.backlog is None else count_noun(table.backlog, "batch", "batches")


def describe_failure(table: TableStatus) -> str:
    """Return the start, backlog and error of a failed table: ``failing since …, 31 batches waiting: …``."""
    backlog = "" if table.backlog is None else f", {describe_backlog(table)} waiting"
    return f"failing since {table.failing_since}{backlog}: {table.error}"


def summarize(totals: Totals, file: str) -> list[str]:
    """Return the summary of a run, as lines of text."""
    tables = [
        f"  {t.table} → {t.sink}: {'FAILED, ' if t.error else ''}{', '.join(_list_counts(t))}" for t in totals.tables
    ]
    return [describe_totals(totals), *tables, *list_hints(totals, file)]


def _list_counts(table: TableProgress | TableTotal) -> list[str]:
    """Return the row counts; superseded, dropped and filtered rows only if there are any."""
    return [
        f"{count_noun(table.rows_in, 'row')} in",
        f"{format_count(table.applied)} applied",
        *([f"{format_count(table.superseded)} superseded"] if table.superseded else []),
        f"{format_count(table.late)} late",
        count_noun(table.dead_letters, "dead letter"),
        *([f"{format_count(table.dropped)} dropped"] if table.dropped else []),
        *([f"{format_count(table.filtered)} filtered"] if table.filtered else []),
    ]


def _describe_outcome(table: TableProgress) -> str:
    name = f"{table.table} → {table.sink}"
    if table.error:
        return f"{name}: FAILED after {format_duration(table.seconds)}: {table.error.splitlines()[0]}"
    if table.skipped:
        return f"{name}: already applied"
    parts = _list_counts(table)
    if table.latency_ms is not None:
        parts.append(f"latency {format_duration(table.latency_ms / 1000)}")
    return f"{name}: {', '.join(parts)}, took {format_duration(table.seconds)}"
