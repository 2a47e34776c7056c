"""A run where nobody watches: a line per batch and table, or one JSON line per batch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

import click

from headrace.cli.formatting import count, counted, span
from headrace.cli.run_totals import TableTotal, Totals

if TYPE_CHECKING:
    from headrace.progress.model import BatchProgress, TableProgress
    from headrace.progress.status import Status


class TextLines:
    """Batches on stdout, everything else on stderr."""

    def __init__(self, totals: Totals, file: str) -> None:
        self._totals, self._file = totals, file

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def say(self, text: str) -> None:
        click.echo(text, err=True)

    doing = say

    def show(self, status: Status) -> None:
        pass

    def add(self, progress: BatchProgress) -> None:
        for sentence in self._totals.add(progress):
            self.say(sentence)
        for table in progress.tables:
            click.echo(f"{progress.started[:19]}Z {progress.pipeline} batch {progress.batch}  {_outcome(table)}")

    def summary(self) -> None:
        self._tell(err=False)

    def _tell(self, *, err: bool) -> None:
        for line in summary_lines(self._totals, self._file):
            click.echo(line, err=err)


class JsonLines(TextLines):
    """Nothing but the batches on stdout."""

    def add(self, progress: BatchProgress) -> None:
        self._totals.add(progress)
        click.echo(progress.json())

    def summary(self) -> None:
        self._tell(err=True)


def headline(totals: Totals) -> str:
    """``artists: 2 batches in 6.7 s (20 s with the start)``."""
    if not totals.batches:
        return f"{totals.pipeline}: nothing new in {span(totals.age)}"
    return f"{totals.pipeline}: {counted(totals.batches, 'batch', 'batches')} in {span(totals.seconds)} ({span(totals.age)} with the start)"


def hints(totals: Totals, file: str) -> list[str]:
    """What to look at after a run."""
    lines = []
    if totals.unrouted:
        lines.append(f"left out, no rule of `tables:` names them: {', '.join(totals.unrouted)}")
    if totals.dead_letters:
        lines.append(letters_hint(totals.dead_letters, file))
    return lines


def letters_hint(number: int, file: str) -> str:
    """Where so many dead letters are."""
    return f"{counted(number, 'dead letter')}, kept with their bytes: headrace dead-letters {file}"


def summary_lines(totals: Totals, file: str) -> list[str]:
    """A run in a few lines of text."""
    tables = [f"  {t.table} → {t.sink}: {'FAILED, ' if t.error else ''}{', '.join(_counts(t))}" for t in totals.tables]
    return [headline(totals), *tables, *hints(totals, file)]


def _counts(table: TableProgress | TableTotal) -> list[str]:
    """What became of the rows; that some were superseded, or dropped, is said where there are any."""
    return [
        f"{counted(table.rows_in, 'row')} in",
        f"{count(table.applied)} applied",
        *([f"{count(table.superseded)} superseded"] if table.superseded else []),
        f"{count(table.late)} late",
        counted(table.dead_letters, "dead letter"),
        *([f"{count(table.dropped)} dropped"] if table.dropped else []),
    ]


def _outcome(table: TableProgress) -> str:
    name = f"{table.table} → {table.sink}"
    if table.error:
        return f"{name}: FAILED after {span(table.seconds)}: {table.error.splitlines()[0]}"
    if table.skipped:
        return f"{name}: was applied before"
    parts = _counts(table)
    if table.latency_ms is not None:
        parts.append(f"{span(table.latency_ms / 1000)} behind")
    return f"{name}: {', '.join(parts)}, took {span(table.seconds)}"
