"""Screen output of ``headrace live``."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from headrace.errors import DataError
from headrace_demo.folder import new_table, shorten
from headrace_demo.live.changes import SHOWN, ShopChange

if TYPE_CHECKING:
    from rich.console import Console

_NAMES = {"iceberg": "Iceberg", "hudi": "Hudi"}
#: Printed columns of the changed row.
_COLUMNS = ("first_name", "last_name", "email", "active")


def print_rows(
    console: Console, title: str, database: Mapping[str, int], lakes: Mapping[str, Mapping[str, int]]
) -> None:
    """Print the row count of each table in the database and in each lake."""
    console.rule(f"[bold]{title}")
    counts = ("PostgreSQL", *(f"{_NAMES[sink]} rows" for sink in lakes))
    table = new_table("table", *counts, right=counts, no_wrap=True)
    for name, count in database.items():
        table.add_row(f"pagila_public.{name}", f"{count:,}", *(f"{lake.get(name, 0):,}" for lake in lakes.values()))
    console.print(table)
    console.print()


def print_heading(console: Console, changes: int) -> None:
    """Print the heading of the changes."""
    console.rule(f"[bold]{changes} changes, each in its own PostgreSQL transaction")
    console.print(f"[dim]{'':<8}{'':<28}{'in Iceberg after':>18}{'in Hudi after':>18}[/]")


def print_change(console: Console, change: ShopChange, seconds: Mapping[str, float]) -> None:
    """Print a change that is readable. ``seconds`` maps each sink to the latency."""
    times = "".join(f"{f'{seconds[sink]:.1f} s':>18}" for sink in _NAMES)
    console.print(f"{change.kind:<8}{f'{change.table} {change.row}':<28}{times}", markup=False)


def print_latency(console: Console, latencies: Sequence[Mapping[str, float]]) -> None:
    """Print the latency from the database's commit to the table's commit."""
    console.print(
        f"\n[bold]From COMMIT to readable[/]  [dim]({len(latencies)} changes, the rows read in both lakes)[/]"
    )
    for sink, name in _NAMES.items():
        times = sorted(seconds[sink] for seconds in latencies)
        console.print(f"  {name:<8} p50 {statistics.median(times):.1f} s   max {times[-1]:.1f} s")


def print_row(console: Console, before: Mapping[str, Any], after: Mapping[str, Any], stored: Mapping[str, str]) -> None:
    """Print a row of the table before and after its change, and the row of the database."""
    console.print(f"\n[bold]One row[/]  {SHOWN.table}, {SHOWN.row}, before and after its update; email is masked\n")
    table = new_table("column", "table, before", "table, now", "PostgreSQL, now", no_wrap=True)
    for name in _COLUMNS:
        style = "" if before[name] == after[name] else "green"
        table.add_row(name, *(shorten(str(row[name]), 19) for row in (before, after, stored)), style=style)
    console.print(table)
    console.print()


def check_equal(
    console: Console, database: Mapping[str, int], lakes: Mapping[str, Mapping[str, int]], dead_letters: int
) -> None:
    """Compare the row counts of the lakes with the database; raise DataError for a difference."""
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
            fix="report a bug with the output above",
        )
    console.print(
        f"[bold]Equal[/]  {len(database)} tables: {sum(database.values()):,} rows in PostgreSQL, in Iceberg and in Hudi; "
        "no dead letters."
    )
