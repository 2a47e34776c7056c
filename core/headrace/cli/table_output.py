"""Tables on the screen: headrace's own tables, and rows of a user's table truncated to the terminal width."""

from __future__ import annotations

import sys
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from headrace.cli.formatting import count_noun, format_json
from headrace.control_characters import escape_controls

if TYPE_CHECKING:
    from rich.console import JustifyMethod

#: The widths that long values are cut to, the widest that fits.
_CUTS = (60, 40, 32, 24, 20, 16, 12)
_GAP = 2
#: Characters of one value in a record.
_LONGEST = 2000


def make_console() -> Console:
    """Return a console as wide as the terminal; for a file or a pipe as wide as the longest row, so that nothing is truncated."""
    return Console(highlight=False, width=None if sys.stdout.isatty() else 100_000)


def put(console: Console, table: Table) -> None:
    """Print a table; for a file or a pipe without trailing spaces."""
    if console.is_terminal:
        console.print(table)
        return
    with console.capture() as captured:
        console.print(table)
    for line in captured.get().splitlines():
        console.print(Text(line.rstrip()), soft_wrap=True)


def make_table(*left: str, right: Collection[str] = (), gap: int = _GAP + 1) -> Table:
    """Return a table without rules: left-aligned columns, then right-aligned ones."""
    table = Table(box=None, pad_edge=False, padding=(0, gap, 0, 0), header_style="dim")
    for name in left:
        table.add_column(name, overflow="fold")
    for name in right:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def make_text(text: str, style: str = "", *, keep_lines: bool = False) -> Text:
    """Return third-party text for a terminal."""
    return Text(escape_controls(text, keep_lines=keep_lines), style=style)


def print_rows(
    console: Console, columns: Sequence[str], rows: Sequence[Sequence[Any]], numbers: Collection[str]
) -> None:
    """Print a table of values, one row per line. Columns that do not fit are named below it."""
    cells = [[_text(value) for value in row] for row in rows]
    natural = [max([cell_len(name), *(cell_len(row[i]) for row in cells)]) for i, name in enumerate(columns)]
    whole = {i for i, name in enumerate(columns) if name in numbers}
    widths = _widths(natural, whole, console.width) if console.is_terminal else natural
    table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="dim")
    for name, width in zip(columns, widths, strict=False):
        justify: JustifyMethod = "right" if name in numbers else "left"
        table.add_column(Text(_text(name)), justify=justify, no_wrap=True, overflow="ellipsis", max_width=width)
    for row, values in zip(cells, rows, strict=True):
        shown = zip(row[: len(widths)], values, strict=False)
        table.add_row(*[Text(cell, style="dim" if value is None else "") for cell, value in shown])
    put(console, table)
    if hidden := columns[len(widths) :]:
        more = f"{count_noun(len(hidden), 'more column')}, from {escape_controls(hidden[0])} on: --format record shows them"
        console.print(Text(more, style="dim"))


def print_records(console: Console, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Print one block per row, one column per line."""
    for number, row in enumerate(rows):
        if number:
            console.print()
        table = Table.grid(padding=(0, _GAP, 0, 0))
        table.add_column(style="dim", no_wrap=True)
        table.add_column(overflow="fold")
        for name, value in zip(columns, row, strict=True):
            table.add_row(Text(_text(name)), Text(_cut(_text(value)), style="dim" if value is None else ""))
        put(console, table)


def _widths(natural: Sequence[int], whole: Collection[int], room: int) -> list[int]:
    """Return a width for each column from the left; fewer widths when the columns do not fit even at their minimum.

    The columns in ``whole`` are not truncated: a truncated number is a different number.
    """
    for cut in _CUTS:
        widths = [width if i in whole else min(width, cut) for i, width in enumerate(natural)]
        if sum(widths) + _GAP * (len(widths) - 1) <= room:
            return widths
    while len(widths) > 1 and sum(widths) + _GAP * (len(widths) - 1) > room:
        widths.pop()
    return widths


def _cut(text: str) -> str:
    if len(text) <= _LONGEST:
        return text
    return f"{text[:_LONGEST]}… ({len(text):,} characters, --format json has them all)"


def _text(value: Any) -> str:
    """Return a value on one line."""
    if value is None:
        return "null"
    return format_json(value) if isinstance(value, bool | dict | list) else escape_controls(str(value))
