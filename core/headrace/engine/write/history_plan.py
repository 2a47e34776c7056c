"""Tables with a history (SCD type 2): their modes, and the checks of their options."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from headrace.errors import ConfigError, DataError
from headrace.sdk.sink import Sink, Table
from headrace.spark.columns import fold_name
from headrace.suggestions import did_you_mean
from headrace.upsert.versions import PERIOD, START

if TYPE_CHECKING:
    from headrace.engine.plan.pipeline_plan import Plan

#: Modes of a sink that finds rows by their key.
KEYED = ("upsert", "history")
#: Modes of the pipeline file with a history.
HISTORY_MODES = ("history", "both")


def name_history(table: str) -> str:
    """Return the name of the table with the versions of a table's rows, in mode ``both``."""
    return f"{table}_history"


def version_table(table: Table) -> Table:
    """Return the table as a sink keeps it: one row per version."""
    return Table(table.name, (*table.key, START))


def check_history(sink: Sink, table: Table, columns: Sequence[str]) -> None:
    """Raise DataError or ConfigError if a sink cannot keep the versions of a table's rows."""
    names = {fold_name(name): name for name in columns}
    if reserved := [names[name] for name in PERIOD if name in names]:
        raise DataError(
            f"its rows have the column {reserved[0]!r}, which a history adds",
            where=f"table {table.name}",
            fix="rename the column: `transforms: - rename: {columns: {…}}`",
        )
    if unknown := [name for name in sink.config.track if fold_name(name) not in names]:
        raise DataError(
            f"`track` names the column {unknown[0]!r}, which its rows lack",
            where=f"table {table.name}",
            fix=did_you_mean(unknown[0], columns),
        )
    sink.check_table(version_table(table), "upsert")


def check_history_options(plan: Plan, sink: Sink) -> None:
    """Raise ConfigError for options of a history that a sink does not support or does not use."""
    mode, where = sink.config.mode, f"sink {plan.name_of(sink)}"
    if sink.config.track and mode not in HISTORY_MODES:
        raise ConfigError(
            "`track` is set, and the sink keeps no history", where=where, fix="set `mode: history` or `mode: both`"
        )
    can_keep = sink.capabilities.upsert and sink.capabilities.delete and sink.capabilities.readable
    if mode in HISTORY_MODES and not can_keep:
        raise ConfigError(
            "cannot keep a history",
            where=where,
            fix="set `mode: changelog`, which adds every change, or use another sink",
        )
