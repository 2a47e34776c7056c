"""What ``headrace live`` shows."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from headrace.errors import DataError
from headrace_demo.live.changes import SHOWN, Change

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

_NAMES = {"iceberg": "Iceberg", "hudi": "Hudi"}
#: Columns of the row that is shown.
_COLUMNS = ("first_name", "last_name", "email", "active")


def rows(console: Console, title: str, database: Mapping[str, int], lakes: Mapping[str, Mapping[str, int]]) -> None:
    """Every table with its rows in the database and in each lake."""
    console.rule(f"[bold]{title}")
    table = _table("table", "PostgreSQL", *(f"{_NAMES[sink]} rows" for sink in lakes), right=True)
    for name, count in database.items():
        table.add_row(f"pagila_public.{name}", f"{count:,}", *(f"{lake.get(name, 0):,}" for lake in lakes.values()))
    console.print(table)
    console.print()


def heading(console: Console) -> None:
    """Over the changes."""
    console.rule("[bold]twenty changes, each committed in PostgreSQL by itself")
    console.print(f"[dim]{'':<8}{'':<28}{'in Iceberg after':>18}{'in Hudi after':>18}[/]")


def change(console: Console, made: Change, waited: Mapping[str, float]) -> None:
    """A change that has arrived."""
    times = "".join(f"{f'{waited[sink]:.1f} s':>18}" for sink in _NAMES)
    console.print(f"{made.kind:<8}{f'{made.table} {made.row}':<28}{times}", markup=False)


def waits(console: Console, waited: Sequence[Mapping[str, float]]) -> None:
    """From the database's commit to the table's commit, which readers see from then on."""
    console.print(f"\n[bold]From COMMIT to readable[/]  [dim]({len(waited)} changes, the rows read in both lakes)[/]")
    for sink, name in _NAMES.items():
        times = sorted(found[sink] for found in waited)
        console.print(f"  {name:<8} p50 {statistics.median(times):.1f} s   max {times[-1]:.1f} s")


def row(console: Console, before: Mapping[str, Any], after: Mapping[str, Any], stored: Mapping[str, str]) -> None:
    """A row of the table before and after its change, beside the database's."""
    console.print(f"\n[bold]One row[/]  {SHOWN.table}, {SHOWN.row}, before and after its update; email is masked\n")
    table = _table("column", "table, before", "table, now", "PostgreSQL, now")
    for name in _COLUMNS:
        style = "" if before[name] == after[name] else "green"
        table.add_row(name, *map(_cell, (before[name], after[name], stored[name])), style=style)
    console.print(table)
    console.print()


def equal(
    console: Console, database: Mapping[str, int], lakes: Mapping[str, Mapping[str, int]], dead_letters: int
) -> None:
    """Whether the lakes have what the database has; DataError when not."""
    wrong = [
        f"{name} has {lake.get(name, 0):,} rows in {_NAMES[sink]} and {count:,} in PostgreSQL"
        for sink, lake in lakes.items()
        for name, count in database.items()
        if lake.get(name, 0) != count
    ]
    if wrong or dead_letters:
        raise DataError(
            "; ".join([*wrong, *([f"{dead_letters} dead letters"] if dead_letters else [])]),
            where="the tables",
            fix="report it, with what stands above",
        )
    console.print(
        f"[bold]Equal[/]  {len(database)} tables: {sum(database.values()):,} rows in PostgreSQL, in Iceberg and in Hudi; "
        "no dead letters."
    )


def _table(*names: str, right: bool = False) -> Table:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="dim")
    for name in names:
        table.add_column(name, justify="right" if right and name != "table" else "left", no_wrap=True)
    return table


def _cell(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 19 else text[:18] + "…"
