"""Changes between two versions of a table on the screen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from headrace.cli.dataframe_output import collect_rows
from headrace.cli.formatting import format_json

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Between the value before and the value after an update.
_ARROW = " → "


def show_changes(
    file: str, table: str, since: str, until: str | None, *, sink: str | None, limit: int, form: str
) -> None:
    """Print the rows of a table that differ between two versions. ``form``: ``table``, ``record`` or ``json``."""
    from headrace.cli.startup import open_session

    with open_session(file, "reading") as (pipeline, spark):
        frame = pipeline.read_changes(table, since, until, sink=sink, spark=spark)
        rows = collect_rows(pipeline, frame, limit + 1)
    if form == "json":
        for op, before, after in rows[:limit]:
            click.echo(format_json({"op": op, "before": before, "after": after}))
        return
    from headrace.cli.table_output import make_console, print_records, print_rows

    console = make_console()
    images: list[list[str]] = [frame.schema[name].dataType.names for name in ("before", "after")]  # type: ignore[attr-defined]
    columns = list(dict.fromkeys([*images[1], *images[0]]))
    cells = [[op, *describe_row(columns, before, after)] for op, before, after in rows[:limit]]
    if form == "record":
        print_records(console, ["op", *columns], cells)
    else:
        print_rows(console, ["op", *columns], cells, ())
    if not rows:
        console.print("[dim]no changes[/]")
    elif len(rows) > limit:
        console.print(f"[dim]there are more changes than these {limit:,} (--limit)[/]")


def describe_row(columns: list[str], before: Mapping[str, Any] | None, after: Mapping[str, Any] | None) -> list[Any]:
    """Return the row, with both values of each column that an update changed."""
    if before is None or after is None:
        row = before or after or {}
        return [row.get(name) for name in columns]
    pairs = [(before.get(name), after.get(name)) for name in columns]
    return [new if old == new else f"{_describe(old)}{_ARROW}{_describe(new)}" for old, new in pairs]


def _describe(value: Any) -> str:
    return value if isinstance(value, str) else format_json(value)
