"""Modes in which sinks get views."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.errors import ConfigError
from headrace.sdk.changes import RAW, RAW_KEY, TOPIC
from headrace.sdk.sink import Sink, Table, TableMode
from headrace.spark.columns import fold_name

if TYPE_CHECKING:
    from headrace.engine.plan.pipeline_plan import Plan
    from headrace.engine.plan.view_plan import View

#: Columns of records that no row of a view has.
_RECORD = frozenset({TOPIC, RAW, RAW_KEY})


def check_views(plan: Plan) -> None:
    """Raise ConfigError if a sink cannot keep a view, or lacks a table that a view reads."""
    for view in plan.views:
        if plan.dead_letter_table and fold_name(plan.dead_letter_table.table_name) == fold_name(view.name):
            raise ConfigError(
                "the table of dead letters has its name",
                where=f"view {view.name}",
                fix="give the view another name, or change `dead.letters.table`",
            )
        names = plan.for_table(view.name).sink_names
        modes = {sink: choose_view_mode(sink, name, view) for sink, name in names.items()}
        for sink, mode in modes.items():
            sink.check_table(Table(view.name, view.key), mode)
            sink.check_source(plan.source, [view.name])
        if view.is_full and "upsert" not in modes.values():
            raise ConfigError(
                "`recompute: full` finds rows to delete in the stored view, and its sinks only append",
                where=f"view {view.name}",
                fix="add a sink that keeps tables to `sinks:` of the view, or remove `recompute:`",
            )
        for table in view.query.tables:
            check_receives(plan, view, table)


def check_receives(plan: Plan, view: View, table: str) -> Sink:
    """Return the sink from which a view reads a table or another view. ConfigError if the sink does not receive it."""
    if (sink := plan.sink_of(table, view.base_sink)) is not None:
        return sink
    raise ConfigError(
        f"the sink {view.base_sink!r} does not receive {table}",
        where=f"view {view.name}",
        fix=f"add the sink to `sinks:` of {table}, or name another sink in `from:`",
    )


def choose_view_mode(sink: Sink, name: str, view: View) -> TableMode:
    """Return the mode in which a sink gets a view. ConfigError for a sink that cannot keep the view up to date."""
    where, mode = f"view {view.name}, sink {name}", sink.config.mode
    if unknown := sorted(_RECORD.intersection(sink.record_columns())):
        raise ConfigError(
            f"it stores columns of the source's records, and rows of a view have none: {', '.join(unknown)}",
            where=where,
            fix="leave the sink out of `sinks:` of the view",
        )
    if mode in ("history", "both"):
        raise ConfigError(
            f"mode {mode} keeps versions of rows by the database's commit times, and rows of a view have none",
            where=where,
            fix=f"set `sink: {{{name}: {{mode: upsert}}}}` in the view",
        )
    if mode == "changelog":
        return "changelog"
    if sink.capabilities.upsert:
        if mode == "append":
            raise ConfigError(
                "a view has one row per key, and mode append adds rows",
                where=where,
                fix=f"set `sink: {{{name}: {{mode: upsert}}}}` in the view",
            )
        return "upsert"
    if sink.capabilities.delete:
        return "append"
    if mode == "append":
        raise ConfigError(
            "it appends, so it cannot remove rows that the view no longer has",
            where=where,
            fix=f"set `sink: {{{name}: {{mode: changelog}}}}` in the view, or leave the sink out of its `sinks:`",
        )
    return "changelog"
