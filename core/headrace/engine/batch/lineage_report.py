"""Lineage of the tables of a run, for observers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from headrace.engine.plan.pipeline_plan import Plan
from headrace.engine.read.column_tracer import TopicTrace
from headrace.engine.read.lineage_log import LineageLog, Types
from headrace.engine.write.history_plan import name_history
from headrace.progress.lineage import ColumnSource, Dataset, LineageInput, TableLineage
from headrace.sdk.sink import Table

if TYPE_CHECKING:
    from headrace.engine.plan.view_plan import View


class LineageReport:
    """Report on the columns in a log, and on the places of their tables."""

    def __init__(self, log: LineageLog) -> None:
        self._log = log
        #: View → its columns, and their sources.
        self._views: dict[str, tuple[Types, Mapping[str, frozenset[ColumnSource]]]] = {}

    def describe(self, plan: Plan) -> dict[str, TableLineage]:
        """Return table or view → its lineage, of those that the run has read so far."""
        topics, views = self._log.read()
        found = {}
        for table, traces in topics.items():
            lineage = found[table] = _describe_table(plan, table, traces)
            if outputs := _list_outputs(plan, table, mode="both"):  # The versions of the rows are in a second table.
                name = name_history(table)
                found[name] = replace(lineage, table=name, outputs=outputs)
        for view in plan.views:
            if view.name in views:
                found[view.name] = self._describe_view(plan, view, *views[view.name])
        return found

    def _describe_view(self, plan: Plan, view: View, given: Mapping[str, Types], made: Types) -> TableLineage:
        from headrace.views.view_lineage import find_view_sources

        known, sources = self._views.get(view.name, (None, {}))
        if known is not made:
            sources = find_view_sources(view.sql, given, made)
            self._views[view.name] = made, sources
        inputs = {}
        for table, types in given.items():
            sink = plan.sink_of(table, view.base_sink)
            inputs[table] = LineageInput(sink.locate(Table(table)) if sink else None, types, view.base_sink)
        outputs = _list_outputs(plan, view.name)
        return TableLineage(view.name, inputs, outputs, made, sources, sql=plan.redact(view.sql))


def _describe_table(plan: Plan, table: str, traces: list[TopicTrace]) -> TableLineage:
    inputs = {trace.topic: LineageInput(plan.source.locate(trace.topic), trace.given) for trace in traces}
    types: dict[str, str] = {}
    sources: dict[str, frozenset[ColumnSource]] = {}
    for trace in traces:
        types |= trace.made
        sources |= {name: sources.get(name, frozenset()) | found for name, found in trace.sources.items()}
    filters = frozenset().union(*(trace.filters for trace in traces))
    return TableLineage(table, inputs, _list_outputs(plan, table), types, sources, filters)


def _list_outputs(plan: Plan, table: str, *, mode: str | None = None) -> dict[str, Dataset | None]:
    """Return the datasets of a table in its sinks; with a ``mode``, those of its second table in the sinks of the mode."""
    place = Table(name_history(table) if mode else table)
    sinks = plan.for_table(table).sink_names.items()
    return {name: sink.locate(place) for sink, name in sinks if mode is None or sink.config.mode == mode}
