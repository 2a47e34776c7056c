"""Reads of stored tables by users."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.engine.plan.error_translation import translate
from headrace.errors import ConfigError
from headrace.sdk.sink import Table
from headrace.spark.columns import quote_name
from headrace.upsert.versions import current_rows, is_history

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from headrace.engine.plan.pipeline_plan import Plan
    from headrace.sdk.sink import Sink


def find_sink(plan: Plan, table: str, sink: str | None) -> Sink:
    """Return the sink of a table with a name, or its first one. ConfigError if the table has no such sink."""
    names = plan.for_table(table).sink_names
    chosen = next((s for s, name in names.items() if sink in (None, name)), None)
    if chosen is None:
        fix = f"its sinks: {', '.join(names.values())}"
        raise ConfigError(f"the table has no sink {sink!r}", where=f"table {table}", fix=fix)
    return chosen


def check_time_travel(plan: Plan, sink: Sink) -> None:
    """Raise ConfigError if older versions of a sink's tables cannot be read."""
    if not sink.capabilities.time_travel:
        where, fix = f"sink {plan.name_of(sink)}", "read the newest version, without `as_of` or `since`"
        raise ConfigError("older versions cannot be read", where=where, fix=fix)


def read_table(
    plan: Plan,
    session: SparkSession,
    table: str,
    *,
    as_of: str | None,
    sink: str | None,
    own_columns: bool,
    current: bool = False,
) -> DataFrame:
    """Return a table as readers see it. ``own_columns``: also the columns of headrace and of the table format.

    ``current``: of a table with a history, the current rows without their periods.
    """
    chosen = find_sink(plan, table, sink)
    if as_of is not None:
        check_time_travel(plan, chosen)
    try:
        frame = chosen.read_back(session, Table(table), as_of)
        frame = current_rows(frame) if current and is_history(frame) else frame
        columns = [c for c in frame.columns if own_columns or not c.startswith(chosen.hidden_prefixes)]
        return frame.select(*map(quote_name, columns))
    except Exception as error:
        raise translate(error, plan, chosen) from error
