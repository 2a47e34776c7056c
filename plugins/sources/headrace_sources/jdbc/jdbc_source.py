"""Source plugin ``jdbc``: rows of tables or of a query, in ranges of a cursor.

The driver polls the database for the end of the next range of each table. Executors read the ranges with Spark's JDBC reader.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar

from headrace.sdk import (
    ConfigError,
    DataError,
    Dataset,
    Events,
    HeadraceError,
    LoginError,
    Offset,
    RangedSource,
    SourceContext,
)
from headrace_sources.jdbc.cursor_planner import CursorPlanner, TableRange
from headrace_sources.jdbc.database_kinds import KINDS
from headrace_sources.jdbc.jdbc_config import JdbcConfig
from headrace_sources.jdbc.jdbc_database import JdbcDatabase, JdbcSession
from headrace_sources.jdbc.jdbc_errors import explain_jdbc_error
from headrace_sources.jdbc.jdbc_rows import JdbcRows
from headrace_sources.jdbc.jdbc_tables import JdbcTable, cursor_names, find_tables

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_LOG = logging.getLogger(__name__)
_LINES = ("3.5", "4.0", "4.1", "4.2")


class JdbcSource(RangedSource):
    """``jdbc: {connection.url: "jdbc:postgresql://db/shop", mode: timestamp, timestamp.column.name: updated_at}``."""

    name = "jdbc"
    api_version = 1
    Config = JdbcConfig
    config: JdbcConfig
    yields_records = False
    jars: ClassVar[Mapping[str, tuple[str, ...]]] = dict.fromkeys(_LINES, tuple(k.jar for k in KINDS if k.jar))

    def __init__(self, config: Any = None, **options: Any) -> None:
        super().__init__(config, **options)
        self._database = JdbcDatabase(self.config)
        kind = self._database.kind
        # Only the driver of the address is needed; a driver of the user's own has jars of the user's own.
        own = (kind.jar,) if kind.jar and self._database.driver == kind.driver else ()
        self.jars = dict.fromkeys(_LINES, own)  # type: ignore[misc]
        self.jvm_class = self._database.driver  # type: ignore[misc]
        self.finds_missing_rows = self.config.finds_missing_rows
        self._rows = JdbcRows(self.config, self._database)
        self._planner = CursorPlanner(self.config)
        self._spark: SparkSession | None = None
        self._tables: dict[str, JdbcTable] = {}
        self._search_at = self._poll_at = 0.0
        self._is_bounded = False
        #: Topics that were reported.
        self._lost, self._slow = set[str](), set[str]()

    def notes(self) -> Iterator[str]:
        config = self.config
        has_window = config.window if config.has_timestamp else config.has_incrementing and config.id_window
        if has_window:
            option = "timestamp.window.interval.ms" if config.has_timestamp else "incrementing.window"
            yield f"rows within `{option}` are read again: a table in mode append gets them again"
        if config.reconcile is not None:
            yield f"`reconcile`: every {config.reconcile}, all keys of the tables are read, in the database and in the lake"
        elif not config.deleted_column and not config.delete_missing:
            yield "deleted rows stay in the tables: a query does not return them"

    def locate(self, topic: str) -> Dataset | None:
        table = self._tables.get(topic)
        return self._database.locate(table.cursor.name) if table else None

    def connect(self, spark: SparkSession) -> Iterator[tuple[str, str]]:
        with self._database.connect(spark) as session:
            tables = list(self._find_tables(session))
            yield "source jdbc", f"{self.config.url}: {len(tables)} table{'s' * (len(tables) != 1)}"
            for table in tables:
                yield f"topic {table.topic}", self._describe(table)

    def open(self, spark: SparkSession) -> None:
        self._spark, self._tables, self._search_at, self._poll_at = spark, {}, 0.0, 0.0
        self._planner = CursorPlanner(self.config)

    def initial(self) -> Offset:
        return {"order": self._order, "topics": {}}

    def prepare_for_trigger_available_now(self) -> None:
        self._planner, self._is_bounded = CursorPlanner(self.config, is_bounded=True), True

    def latest(self, start: Offset, limit: int | None) -> Offset:
        self._check_order(start)
        if time.monotonic() < self._poll_at:
            return start
        assert self._spark is not None, "open() was not called"
        ranges = dict(start["topics"])
        with self._database.connect(self._spark) as session:
            clock = session.read_clock()
            tables = self._find_tables(session)
            self._report_slow(tables)
            self._report_lost(ranges.keys() - self._tables.keys())
            for table in tables:
                known = TableRange.of_json(ranges[table.topic]) if table.topic in ranges else None
                planned = self._plan(table, session, known, clock)
                if planned is not None:
                    ranges[table.topic] = planned.to_json()
        has_more = ranges != start["topics"] and (self.config.limit is not None or self._is_bounded)
        self._poll_at = 0.0 if has_more else time.monotonic() + self.config.poll_interval / 1000
        return {**start, "topics": ranges}

    def _plan(
        self, table: JdbcTable, session: JdbcSession, known: TableRange | None, clock: datetime
    ) -> TableRange | None:
        """Return the next range of a table. For a table that cannot be read, a range whose table fails, and the others continue."""
        try:
            return _plan_range(self._planner, table, session, known, clock)
        except Exception as error:
            explained = error if isinstance(error, HeadraceError) else explain_jdbc_error(error, self._database.where)
            if not isinstance(explained, (ConfigError, DataError)) or isinstance(explained, LoginError):
                raise
            if known is not None and known.is_unreadable:
                return None  # Its table has failed, and reads this range until it succeeds.
            self._search_at = 0.0  # The table may have been dropped.
            if known is None:
                return TableRange(None, None, round(clock.timestamp() * 1_000_000), is_unreadable=True)
            return replace(known, after=known.upto, read=known.read + 1, compares_keys=False, is_unreadable=True)

    def _report_slow(self, tables: Iterable[JdbcTable]) -> None:
        """Log each table that a poll reads as a whole, once."""
        slow = {table.topic: table for table in tables if table.is_indexed is False}
        for topic in sorted(slow.keys() - self._slow):
            _LOG.warning("source jdbc, %s: %s", slow[topic].cursor.name, self._describe(slow[topic]))
        self._slow |= slow.keys()

    def _report_lost(self, topics: Iterable[str]) -> None:
        """Log each topic whose table is no longer in the database, or no longer selected."""
        for topic in sorted({*topics} - self._lost):
            _LOG.warning("source jdbc, topic %s: its table no longer exists, or is not selected. Its rows stay", topic)
        self._lost = {*topics}

    def read(self, spark: SparkSession, start: Offset, end: Offset) -> DataFrame:
        # The rows of each table have columns of their own: ``events`` reads them.
        return spark.range(0).drop("id")

    def events(self, context: SourceContext, frame: DataFrame) -> list[Events]:
        if context.replay is not None:
            planned = {topic: [TableRange.of_json(end) for _, end in spans] for topic, spans in context.replay.items()}
        else:
            planned = {topic: [entry] for topic, entry in self._list_ranges(context).items()}
        if not planned:
            return []
        tables = self._open_tables(context.spark)
        return [self._open_topic(context.spark, tables.get(topic), topic, spans) for topic, spans in planned.items()]

    def replay_range(self, context: SourceContext, topics: Sequence[str]) -> Mapping[str, Any]:
        found = self._list_ranges(context)
        return {topic: [{}, found[topic].to_json()] for topic in topics if topic in found}

    def offset_epoch(self, context: SourceContext, topics: Sequence[str]) -> Mapping[str, str]:
        found = self._list_ranges(context)
        return {topic: f"{self._order}{found[topic].describe_era()}" for topic in topics if topic in found}

    def known_schemas(self, context: SourceContext) -> list[Events]:
        tables, everything = self._open_tables(context.spark), TableRange(None, None, 0)
        return [self._open_topic(context.spark, table, topic, [everything]) for topic, table in tables.items()]

    def explain(self, error: BaseException) -> HeadraceError | None:
        return explain_jdbc_error(error, self._database.where)

    @property
    def _order(self) -> str:
        """Describe what orders the rows. Ranges of another order cannot be continued."""
        return " ".join([self.config.mode, *cursor_names(self.config)])

    def _check_order(self, offset: Offset) -> None:
        if offset["order"] != self._order:
            raise ConfigError(
                f"the checkpoint continues `{offset['order']}`, and the options say `{self._order}`",
                where="source jdbc, mode",
                fix="restore the options, or use a new checkpoint, which reads the tables from the beginning",
            )

    def _list_ranges(self, context: SourceContext) -> dict[str, TableRange]:
        """Return topic → the range of a batch, without the tables that have no new rows."""
        if context.range is None:
            return {}
        start, end = (offset["topics"] for offset in context.range)
        return {topic: TableRange.of_json(part) for topic, part in end.items() if start.get(topic) != part}

    def _open_topic(
        self, spark: SparkSession, table: JdbcTable | None, topic: str, ranges: Sequence[TableRange]
    ) -> Events:
        try:
            if table is None:
                fix = "create the table again, or select it in the options of the source"
                raise ConfigError("the database has no such table", where=f"topic {topic}", fix=fix)  # noqa: TRY301
            if any(planned.is_unreadable for planned in ranges):
                self._check_readable(spark, table, ranges[-1])
            return self._rows.open(spark, table, ranges)
        except Exception as error:  # noqa: BLE001 - its table raises it, and the others continue
            where = f"source jdbc, {table.cursor.name if table else topic}"
            return Events.of_failure(topic, explain_jdbc_error(error, where) or error)

    def _check_readable(self, spark: SparkSession, table: JdbcTable, planned: TableRange) -> None:
        """Raise the error because of which a range has no rows, until its cause is mended."""
        known = replace(planned, is_unreadable=False)
        with self._database.connect(spark) as session:
            _plan_range(CursorPlanner(self.config), table, session, known, session.read_clock())

    def _open_tables(self, spark: SparkSession) -> dict[str, JdbcTable]:
        """Return the tables by topic, from the last search if there is one."""
        if not self._tables:
            with self._database.connect(spark) as session:
                self._find_tables(session)
        return self._tables

    def _find_tables(self, session: JdbcSession) -> Sequence[JdbcTable]:
        """Return the tables; search for new ones if the last search is old."""
        if time.monotonic() >= self._search_at:
            found = {table.topic: table for table in find_tables(self.config, session)}
            errors = [table.error for table in found.values() if table.error]
            wrong_options = [error for error in errors if isinstance(error, ConfigError)]
            if not self._tables and (len(errors) == len(found) or wrong_options):
                raise (wrong_options or errors)[0]  # A table that is created later does not stop the others.
            self._tables = found
            self._search_at = time.monotonic() + self.config.table_poll_interval / 1000
        return list(self._tables.values())

    def _describe(self, table: JdbcTable) -> str:
        if table.error is not None:
            return f"cannot be read: {table.error}"
        key = f"key {', '.join(table.key)}" if table.key else "no primary key"
        if table.is_indexed is not False:
            return key
        column = cursor_names(self.config)[0]
        return f"{key}; no index starts with {column}: each poll reads the whole table. Create an index on {column}"


def _plan_range(
    planner: CursorPlanner, table: JdbcTable, session: JdbcSession, known: TableRange | None, clock: datetime
) -> TableRange | None:
    if table.error is not None:
        raise table.error
    return planner.plan(table.cursor, session.run, known, clock)
