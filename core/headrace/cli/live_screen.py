"""A run on a terminal: one table that is updated in place."""

from __future__ import annotations

from collections.abc import Sequence
from time import monotonic
from typing import TYPE_CHECKING, Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from headrace.cli.formatting import count, span
from headrace.cli.run_log import headline, hints
from headrace.cli.run_totals import TableTotal, Totals
from headrace.cli.table_output import plain_table

if TYPE_CHECKING:
    from headrace.progress.model import BatchProgress
    from headrace.progress.rates import TableStatus
    from headrace.progress.status import Status


#: Columns of a terminal from which on the table has room to breathe; it fits into the usual 80 with short names.
_WIDE = 100
#: What is counted of each table, and what is shown only where there is some.
_COUNTS = ("rows_in", "applied", "superseded", "late", "dead_letters", "dropped")
_RARE = ("superseded", "dropped")


class Screen:
    """Facts scroll by above; below stand what is done now and the tables."""

    def __init__(self, totals: Totals, file: str, console: Console) -> None:
        self._totals, self._file = totals, file
        self._console = console
        self._doing, self._since, self._running = "", monotonic(), False
        self._flow: dict[tuple[str, str], TableStatus] = {}
        self._spinner = Spinner("dots", style="cyan")
        # Not shown at the end: the summary says the same.
        self._live = Live(console=self._console, get_renderable=self._render, refresh_per_second=5, transient=True)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def say(self, text: str) -> None:
        self._console.print(Text(text, style="dim"))

    def doing(self, text: str) -> None:
        if text != self._doing:
            self._doing, self._since = text, monotonic()

    def show(self, status: Status) -> None:
        self._running = True
        self.doing(status.message)
        self._flow = {(table.table, table.sink): table for table in status.tables}

    def add(self, progress: BatchProgress) -> None:
        for sentence in self._totals.add(progress):
            self.say(sentence)

    def summary(self) -> None:
        self._console.print(Text(headline(self._totals), style="bold"))
        if self._totals.tables:
            self._console.print(self._table(live=False))
        for line in hints(self._totals, self._file):
            self._console.print(Text(line, style="yellow"))

    def _render(self) -> RenderableType:
        head = Table.grid(expand=True, padding=(0, 2, 0, 0))
        for _ in range(2):
            head.add_column(no_wrap=True)
        head.add_column(justify="right", no_wrap=True, style="dim")
        name = Text(self._totals.pipeline, style="bold")
        doing = Text(f"{self._doing} {span(monotonic() - self._since)}" if self._doing else "", style="cyan")
        self._spinner.update(text=Text.assemble(name, "  ", doing))
        how = "  Ctrl-C: end after the batch" if self._running else ""
        head.add_row(self._spinner, "", f"up {span(self._totals.age)}{how}")
        parts: list[RenderableType] = [head]
        if self._totals.tables:
            parts += [Text(), self._table(live=True)]
        parts += [Text(f"{t.table} → {t.sink}: {t.error}", style="red") for t in self._totals.tables if t.error]
        return Group(*parts)

    def _table(self, *, live: bool) -> Table:
        wide = self._console.width >= _WIDE
        now = (*(("waiting", "rows/s") if wide else ()), "behind", "last batch") if live else ()
        gap = 3 if wide and not live else 1 + wide
        rare = [name for name in _RARE if any(getattr(total, name) for total in self._totals.tables)]
        counts = [name for name in _COUNTS if name not in _RARE or name in rare]
        table = plain_table("table", "sink", right=(*(c.replace("_", " ") for c in counts), *now), gap=gap)
        for total in self._totals.tables:
            flow = self._flow.get((total.table, total.sink)) if wide else None
            table.add_row(*_cells(total, counts, flow, live=live, wide=wide), style="red" if total.error else "")
        return table


def _cells(total: TableTotal, counts: Sequence[str], flow: TableStatus | None, *, live: bool, wide: bool) -> list[Text]:
    cells = [Text(total.table), Text(total.sink)]
    for name in counts:
        value = getattr(total, name)
        cells.append(Text(count(value), style="yellow" if name == "dead_letters" and value else ""))
    if live and wide:
        cells.append(Text(count(flow.lag if flow else None)))
        cells.append(Text(count(round(flow.rows_per_second) if flow else None)))
    if live:
        cells.append(Text(span(total.behind)))
        cells.append(Text(f"#{total.batch}, {span(monotonic() - total.ended)} ago"))
    return cells
