"""Check of hidden columns against tables that a sink continues: their rows did not pass the transforms."""

from __future__ import annotations

from collections.abc import Collection

from headrace.errors import ConfigError


def check_continued(table: str, sink: str, note: str | None, hidden: Collection[str]) -> None:
    """Raise ConfigError if a sink continues the rows of another writer, and transforms hide columns of the table.

    ``note``: the result of ``Sink.check_stored``. The stored rows would keep their values, and a hidden key would not find them.
    """
    if note and hidden:
        raise ConfigError(
            f"the sink continues rows of another writer, which no transform has changed, and transforms hide {', '.join(sorted(hidden))}",
            where=f"table {table}, sink {sink}",
            fix="load the rows into a new table, or hide no column of this one",
        )
