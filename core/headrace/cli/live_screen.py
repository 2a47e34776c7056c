"""Live screen of a run on a terminal: one table that is updated in place."""

from __future__ import annotations

from collections.abc import Sequence
from time import monotonic
from typing import TYPE_CHECKING, Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from headrace.cli.formatting import UNKNOWN, format_count, format_duration, format_lag
from headrace.cli.run_log import describe_backlog, describe_failure, describe_totals, list_hints
from headrace.cli.run_totals import TableTotal, Totals
from headrace.cli.table_output import make_table, make_text
from headrace.control_characters import escape_controls

if TYPE_CHECKING:
    from headrace.progress.model import BatchProgress
    from headrace.progress.rates import TableStatus
    from headrace.progress.status import Status


#: Terminal width from which the table has wide spacing; with short names it fits into 80 columns.
_WIDE = 100
#: Counts of each table, and counts that are shown only when they are not zero.
_COUNTS = ("rows_in", "applied", "superseded", "late", "dead_letters", "dropped", "filtered")
_RARE = ("superseded", "dropped", "filtered")


class Screen:
    """Live screen: messages scroll above; the current step and the tables stay below."""

    def __init__(self, totals: Totals, file: str, console: Console) -> None:
        self._totals, self._file = totals, file
        self._console = console
        self._step, self._since, self._running = "", monotonic(), False
        self._detail: str | None = None
        self._status: dict[tuple[str, str], TableStatus] = {}
        self._spinner = Spinner("dots", style="cyan")
        # Hidden at the end, because the summary repeats it.
        self._live = Live(console=self._console, get_renderable=self._render, refresh_per_second=5, transient=True)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def report(self, text: str) -> None:
        self._console.print(make_text(text, "dim", keep_lines=True))

    def step(self, text: str) -> None:
        if text != self._step:
            self._step, self._since = text, monotonic()

    def show(self, status: Status) -> None:
        self._running = True
        self.step(status.message)
        self._detail = status.step
        if status.silent_seconds is not None and not status.error:
            self._since = monotonic() - status.silent_seconds
        self._status = {(table.table, table.sink): table for table in status.tables}

    def add(self, progress: BatchProgress) -> None:
        for sentence in self._totals.add(progress):
            self.report(escape_controls(sentence))

    def print_summary(self) -> None:
        self._console.print(make_text(describe_totals(self._totals), "bold"))
        if self._totals.tables:
            self._console.print(self._table(live=False))
        for line in list_hints(self._totals, self._file):
            self._console.print(make_text(line, "yellow"))

    def _render(self) -> RenderableType:
        head = Table.grid(expand=True, padding=(0, 2, 0, 0))
        for _ in range(2):
            head.add_column(no_wrap=True)
        head.add_column(justify="right", no_wrap=True, style="dim")
        name = make_text(self._totals.pipeline, "bold")
        step = make_text(f"{self._step} {format_duration(monotonic() - self._since)}" if self._step else "", "cyan")
        self._spinner.update(text=Text.assemble(name, "  ", step))
        hint = "  Ctrl-C: end after the batch" if self._running else ""
        head.add_row(self._spinner, "", f"up {format_duration(self._totals.age)}{hint}")
        parts: list[RenderableType] = [head]
        if self._detail:
            parts.append(make_text(f"  {self._detail}", "dim"))
        if self._totals.tables:
            parts += [Text(), self._table(live=True)]
        parts += [make_text(line, "red", keep_lines=True) for line in self._describe_failures()]
        return Group(*parts)

    def _describe_failures(self) -> list[str]:
        """Return a line for each failed table; before the first status it has only the error."""
        tables = {(total.table, total.sink): total.error for total in self._totals.tables if total.error}
        for name, status in self._status.items():
            if status.error:
                tables[name] = describe_failure(status)
        return [f"{table} → {sink}: {text}" for (table, sink), text in tables.items()]

    def _table(self, *, live: bool) -> Table:
        wide = self._console.width >= _WIDE
        live_columns = (*(("lag", "rows/s") if wide else ()), "latency", "last batch") if live else ()
        gap = 3 if wide and not live else 1 + wide
        rare = [name for name in _RARE if any(getattr(total, name) for total in self._totals.tables)]
        counts = [name for name in _COUNTS if name not in _RARE or name in rare]
        table = make_table("table", "sink", right=(*(c.replace("_", " ") for c in counts), *live_columns), gap=gap)
        for total in self._totals.tables:
            cells = _count_cells(total, counts)
            if live:
                cells += _live_cells(total, self._status.get((total.table, total.sink)), wide=wide)
            table.add_row(*cells, style="red" if total.error else "")
        return table


def _count_cells(total: TableTotal, counts: Sequence[str]) -> list[Text]:
    cells = [make_text(total.table), make_text(total.sink)]
    for name in counts:
        value = getattr(total, name)
        cells.append(Text(format_count(value), style="yellow" if name == "dead_letters" and value else ""))
    return cells


def _live_cells(total: TableTotal, status: TableStatus | None, *, wide: bool) -> list[Text]:
    """Return lag, rate, latency and last batch. A failed table has its backlog instead of the lag, and no latency."""
    is_failing = total.error is not None or (status is not None and status.error is not None)
    texts = []
    if wide:
        texts.append(
            UNKNOWN
            if status is None
            else describe_backlog(status)
            if is_failing
            else format_lag(status.lag, status.lag_seconds)
        )
        texts.append(format_count(round(status.rows_per_second) if status else None))
    texts.append(format_duration(None if is_failing else total.latency))
    ago = None if total.ended is None else monotonic() - total.ended
    texts.append(UNKNOWN if total.batch is None else f"#{total.batch}, {format_duration(ago)} ago")
    return [Text(text) for text in texts]
