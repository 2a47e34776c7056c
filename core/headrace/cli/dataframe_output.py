"""First rows of a DataFrame on the screen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from headrace.cli.formatting import format_json

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from headrace.pipeline import Pipeline


def collect_rows(pipeline: Pipeline, frame: DataFrame, limit: int) -> list[list[Any]]:
    """Return the first rows of a DataFrame as values for display."""
    from headrace.cli.json_values import to_json_value
    from headrace.pipeline import translate_error

    try:
        rows = frame.limit(limit).collect()
    except Exception as error:
        raise translate_error(pipeline, error) from error
    types = [field.dataType for field in frame.schema]
    return [[to_json_value(value, data_type) for value, data_type in zip(row, types, strict=True)] for row in rows]


def print_frame(frame: DataFrame, rows: list[list[Any]], limit: int, form: str) -> None:
    """Print rows on stdout as ``table``, ``record`` or ``json``."""
    from pyspark.sql.types import NumericType

    if form == "json":
        for row in rows[:limit]:
            click.echo(format_json(dict(zip(frame.columns, row, strict=True))))
        return
    from headrace.cli.table_output import make_console, print_records, print_rows

    console = make_console()
    if form == "record":
        print_records(console, frame.columns, rows[:limit])
    else:
        numbers = {field.name for field in frame.schema if isinstance(field.dataType, NumericType)}
        print_rows(console, frame.columns, rows[:limit], numbers)
    if not rows:
        console.print("[dim]no rows[/]")
    elif len(rows) > limit:
        console.print(f"[dim]there are more rows than these {limit:,} (--limit)[/]")
