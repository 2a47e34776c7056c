"""History of one row on the screen."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from headrace.cli.changes_output import describe_row
from headrace.cli.dataframe_output import collect_rows
from headrace.cli.formatting import format_json
from headrace.control_characters import escape_controls

if TYPE_CHECKING:
    from headrace.pipeline_reads import RowHistory

#: Columns of the result that the screen omits if they are null in all rows.
_KNOWN_SOMETIMES = ("version", "written", "position", "committed")


def show_row_history(
    file: str, table: str, key: str, *, since: str | None, until: str | None, sink: str | None, limit: int, form: str
) -> None:
    """Print the changes of one row, the oldest first. ``form``: ``table``, ``record`` or ``json``."""
    from headrace.cli.startup import open_session

    with open_session(file, "reading") as (pipeline, spark):
        history = pipeline.read_row_history(table, key, since=since, until=until, sink=sink, spark=spark)
        rows = collect_rows(pipeline, history.changes, limit + 1)
    changes = [dict(zip(history.changes.columns, row, strict=True)) for row in rows[:limit]]
    if form == "json":
        for change in changes:
            click.echo(format_json(change))
    elif changes:
        _print_changes(changes, form)
    for note in list_notes(history, is_empty=not rows, limit=limit if len(rows) > limit else None):
        click.secho(escape_controls(note), err=True, dim=True)


def list_notes(history: RowHistory, *, is_empty: bool, limit: int | None) -> list[str]:
    """Return what the changes do not tell. ``limit``: number of the changes that were printed, if there are more."""
    notes = [] if limit is None else [f"there are more changes than these {limit:,} (--limit)"]
    if is_empty:
        key = ", ".join(f"{name}={value}" for name, value in history.key.items())
        notes.append(f"no version of {history.table} that was read has a row with {key}")
    return notes if history.is_complete else [*notes, _describe_start(history)]


def _describe_start(history: RowHistory) -> str:
    assert history.oldest is not None, "the history is not complete"
    oldest = history.oldest.version
    since = f"changes since version {oldest} ({_format_time(history.oldest.written_ms)} UTC)"
    if history.unread:
        return f"{since}; for those of {history.unread:,} older versions: --until {oldest}"
    return (
        f"{since}, the oldest version that was read; `history` under `maintenance:` (default: 1 hour), also of a table, keeps versions "
        "for longer, and `mode: both` keeps all versions of rows"
    )


def _print_changes(changes: list[dict[str, Any]], form: str) -> None:
    from headrace.cli.table_output import make_console, print_records, print_rows

    known = ["op", *[name for name in _KNOWN_SOMETIMES if any(change[name] is not None for change in changes)]]
    images = [change[image] for change in changes for image in ("after", "before") if change[image] is not None]
    columns = list(dict.fromkeys(name for image in images for name in image))
    cells = [
        [*[change[name] for name in known], *describe_row(columns, change["before"], change["after"])]
        for change in changes
    ]
    if form == "record":
        print_records(make_console(), [*known, *columns], cells)
    else:
        print_rows(make_console(), [*known, *columns], cells, ())


def _format_time(millis: int) -> str:
    return datetime.fromtimestamp(millis / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
