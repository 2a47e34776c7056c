"""Write of a view's rows into its sinks."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from headrace.engine.plan.pipeline_plan import Plan
from headrace.engine.plan.view_plan import View
from headrace.engine.read.reserved_names import reject_empty_structs, reject_reserved_names
from headrace.engine.write.sink_writer import SinkWriter
from headrace.engine.write.table_plan import BatchMarks, TablePlan
from headrace.engine.write.view_capture import ViewCapture
from headrace.engine.write.view_modes import choose_view_mode
from headrace.errors import ConfigError, DataError
from headrace.progress.model import TableProgress
from headrace.sdk.changes import DELETED, KEY, POSITION, TOMBSTONE
from headrace.sdk.positions import epoch_text
from headrace.sdk.sink import OPERATION, Table, TableMode
from headrace.spark.columns import quote_name
from headrace.spark.sessions import Sessions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: Prefix of the positions of a view's rows: they sort after all positions of changes.
_PREFIX = "v"


class ViewWriter:
    """Writer of a view into all of its sinks."""

    def __init__(self, plan: Plan, view: View, sessions: Sessions, capture: ViewCapture, pipeline: str) -> None:
        """``plan``: the plan for the view; ``pipeline``: the checkpoint's id."""
        self._plan, self._view, self._pipeline = plan, view, pipeline
        self._sinks = SinkWriter(plan, sessions, capture)
        self.session = self._sinks.session_of(view.name)
        self._modes = {sink: choose_view_mode(sink, plan.name_of(sink), view) for sink in plan.sinks}

    @property
    def places(self) -> list[str]:
        """Names, modes and places of the sinks: a further sink needs all rows of the view."""
        return sorted(f"{self._plan.name_of(sink)} {mode} {sink.place() or ''}" for sink, mode in self._modes.items())

    def check_modes(self) -> None:
        """Raise ConfigError if a table was written in another mode: it would have two kinds of rows."""
        for sink, mode in self._modes.items():
            rows = self._sinks.read_stored(sink, Table(self._view.name)) if sink.capabilities.upsert else None
            was = "changelog" if rows is not None and OPERATION in rows.columns else "upsert"
            if rows is not None and mode != was:
                name = self._plan.name_of(sink)
                raise ConfigError(
                    f"its table was written in mode {was}, and has mode {mode} now",
                    where=f"view {self._view.name}, sink {name}",
                    fix=f"set `sink: {{{name}: {{mode: {was}}}}}` in the view, give it another name, or remove the table",
                )

    def read_stored(self, base_sink: str) -> list[DataFrame | None]:
        """Return the stored view in each sink that keeps one row per key. ``base_sink``: the one that other views may read."""
        readable = [s for s in self._plan.sinks if s.capabilities.exactly_once or self._plan.name_of(s) == base_sink]
        return [
            self._sinks.read_stored(sink, Table(self._view.name)) for sink in readable if self._modes[sink] == "upsert"
        ]

    def write(self, rows: DataFrame, deletes: DataFrame, key: tuple[str, ...], number: int) -> list[TableProgress]:
        """Write rows and deletes, and return the progress for each sink. ``number``: number of the refresh."""
        started = time.monotonic()
        table, columns = Table(self._view.name, key), tuple(rows.columns)
        marks = BatchMarks(f"{self._pipeline}/view", number)
        table_plan = TablePlan(table, marks, self._modes, columns)
        self._check(table_plan, rows)
        frames = {mode: _make_frame(rows, deletes, mode, table_plan) for mode in set(self._modes.values())}
        results = self._sinks.write(table_plan, frames)
        count, seconds = rows.count() + deletes.count(), round(time.monotonic() - started, 3)
        return [
            TableProgress(
                table.name,
                self._plan.name_of(sink),
                rows_in=count,
                applied=count,
                late=0,
                superseded=0,
                bytes=result.bytes,
                version=result.version,
                seconds=seconds,
                note="; ".join(result.schema_changes) or None,
            )
            for sink, result in zip(self._modes, results, strict=True)
        ]

    def _check(self, table_plan: TablePlan, rows: DataFrame) -> None:
        """Raise an error if a sink cannot hold the rows."""
        from pyspark.sql import functions as F

        table = table_plan.table
        reject_reserved_names(table_plan.columns, table.name, self._plan.sinks)
        reject_empty_structs(rows.schema, table.name)
        for sink, mode in self._modes.items():
            sink.check_table(table, mode)
            sink.check_columns(self.session, table, table_plan.columns)
            condition = sink.find_unsupported(self.session, table, mode, rows.schema)
            if condition is not None and not rows.withColumn(DELETED, F.lit(False)).where(condition).isEmpty():
                raise DataError(
                    f"the sink {self._plan.name_of(sink)} cannot hold a row of its result",
                    where=f"view {table.name}",
                    fix="filter such rows, or convert their values in the SQL",
                )


def make_position(number: int) -> str:
    """Return the position of the rows of a refresh."""
    return f"{_PREFIX}{epoch_text(number)}"


def has_only_refreshes(stored: DataFrame) -> bool:
    """Return whether all stored rows are of refreshes of a view, and none is a row of a source."""
    from pyspark.sql import functions as F

    return stored.where(~F.coalesce(F.col(POSITION).startswith(_PREFIX), F.lit(False))).isEmpty()


def find_last_number(stored: Sequence[DataFrame | None]) -> int:
    """Return the highest number of a refresh in stored rows of the view; 0 without any."""
    from pyspark.sql import functions as F

    numbers = [0]
    for rows in stored:
        if rows is not None and POSITION in rows.columns:
            row = rows.where(F.col(POSITION).startswith(_PREFIX)).agg(F.max(POSITION)).first()
            if row and (match := re.fullmatch(f"{_PREFIX}[1-9A-G]([0-9A-F]+)", row[0] or "")):
                numbers.append(int(match[1], 16))
    return max(numbers)


def _make_frame(rows: DataFrame, deletes: DataFrame, mode: TableMode, table_plan: TablePlan) -> DataFrame:
    """Return the rows for the sinks of one mode."""
    from pyspark.sql import functions as F

    made = rows.withColumn(DELETED, F.lit(False))
    made = made.unionByName(deletes.withColumn(DELETED, F.lit(True)), allowMissingColumns=True)
    position = F.lit(make_position(table_plan.marks.batch))
    if mode == "upsert":
        return made.withColumn(POSITION, position)
    key = F.struct(*[quote_name(name) for name in table_plan.table.key])
    # An appended row has no key, so its position is unique.
    made = made.withColumn(POSITION, F.concat(position, F.lit("/"), F.to_json(key)))
    if KEY in table_plan.record_columns:
        made = made.withColumn(KEY, key)
    if table_plan.keeps_tombstones:
        made = made.withColumn(TOMBSTONE, F.lit(False))
    if mode == "changelog":
        made = made.withColumn(OPERATION, F.when(F.col(DELETED), "d").otherwise("u"))
        made = made.withColumn(DELETED, F.lit(False))
    return made
