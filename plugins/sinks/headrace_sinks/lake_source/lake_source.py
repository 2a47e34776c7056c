"""Base of the sources of lake tables: the rows of their first version, then the changes between versions."""

from __future__ import annotations

import logging
import time
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from headrace.sdk import (
    Config,
    Dataset,
    Events,
    HeadraceError,
    Offset,
    Plugin,
    RangedSource,
    SourceContext,
    Table,
)
from headrace.sdk.sink import TableVersion
from headrace_sinks.lake_source.lake_config import LakeSourceConfig
from headrace_sinks.lake_source.lake_rows import LakeRows
from headrace_sinks.lake_source.lake_tables import LakeTables
from headrace_sinks.lake_source.table_search import find_tables, is_glob
from headrace_sinks.lake_source.version_range import VersionRange

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_LOG = logging.getLogger(__name__)


class LakeSource(RangedSource):
    """Source of lake tables. Derived classes have the name, the options and the tables of a format."""

    Config: ClassVar[type[Config]] = LakeSourceConfig
    config: LakeSourceConfig
    yields_records = False

    def __init__(self, config: Any = None, **options: Any) -> None:
        super().__init__(config, **options)
        self.finds_missing_rows = self.config.on_expired == "reload"
        self._spark: SparkSession | None = None
        self._names: list[str] = []
        self._search_at = self._poll_at = 0.0
        self._is_bounded = False
        #: Table → the version at which a bounded run ends.
        self._ends: dict[str, TableVersion] = {}
        #: Topics that were reported.
        self._lost = set[str]()

    @abstractmethod
    def open_tables(self) -> LakeTables:
        """Return the tables of the options."""

    @cached_property
    def _tables(self) -> LakeTables:
        return self.open_tables()

    @property
    def _rows(self) -> LakeRows:
        return LakeRows(self._tables, reloads=self.finds_missing_rows)

    def parts(self) -> Sequence[Plugin]:
        return self._tables.sink.parts()

    def session_conf(self) -> dict[str, str]:
        return self._tables.sink.session_conf()

    def check(self, spark: SparkSession | None = None) -> None:
        try:
            self._tables.sink.check(spark)
        except HeadraceError as error:
            raise self._name_source(error) from error

    def notes(self) -> Iterator[str]:
        yield "a table whose versions replace rows is compared as a whole: each batch scans two versions of it"

    def connect(self, spark: SparkSession) -> Iterator[tuple[str, str]]:
        for what, found in self._tables.sink.connect(spark):
            yield what.replace("sink ", "source ", 1), found
        for name in self._find_tables(spark, ()):
            newest = self._tables.find_newest(spark, Table(name))
            yield f"topic {name}", f"version {newest.version}" if newest else "no version yet"

    def locate(self, topic: str) -> Dataset | None:
        return self._tables.sink.locate(Table(topic))

    def named_topics(self) -> Sequence[str]:
        return self._names or [name for name in self.config.tables if not is_glob(name)]

    def open(self, spark: SparkSession) -> None:
        self._spark, self._names, self._search_at, self._poll_at = spark, [], 0.0, 0.0

    def initial(self) -> Offset:
        return {"tables": {}}

    def prepare_for_trigger_available_now(self) -> None:
        self._is_bounded, self._ends = True, {}

    def latest(self, start: Offset, limit: int | None) -> Offset:
        if time.monotonic() < self._poll_at:
            return start
        assert self._spark is not None, "open() was not called"
        ranges = dict(start["tables"])
        names = self._find_tables(self._spark, ranges)
        self._report_lost(ranges.keys() - {*names})
        for name in names:
            known = VersionRange.of_json(ranges[name]) if name in ranges else None
            if (planned := self._plan(self._spark, Table(name), known, limit)) is not None:
                ranges[name] = planned.to_json()
        has_more = ranges != start["tables"] and (limit is not None or self._is_bounded)
        self._poll_at = 0.0 if has_more else time.monotonic() + self.config.poll_interval / 1000
        return {"tables": ranges}

    def _plan(
        self, spark: SparkSession, table: Table, known: VersionRange | None, limit: int | None
    ) -> VersionRange | None:
        """Return the next range of a table; None without a new version."""
        newest = self._ends.get(table.name) or self._tables.find_newest(spark, table)
        if self._is_bounded and newest is not None:
            self._ends[table.name] = newest
        if newest is None or (known is not None and newest.version == known.upto):
            return None
        if known is not None and limit is not None:
            later = self._tables.list_later(spark, table, known.upto)
            count = next((n for n, found in enumerate(later, 1) if found.version == newest.version), len(later))
            newest = later[limit - 1] if count > limit else newest
        return VersionRange.plan(known, newest)

    def read(self, spark: SparkSession, start: Offset, end: Offset) -> DataFrame:
        # The rows of each table have columns of their own: ``events`` reads them.
        return spark.range(0).drop("id")

    def events(self, context: SourceContext, frame: DataFrame) -> list[Events]:
        if context.replay is not None:
            planned = {
                topic: [VersionRange.of_json(end) for _, end in spans] for topic, spans in context.replay.items()
            }
        else:
            planned = {topic: [found] for topic, found in _list_ranges(context).items()}
        return [self._open_topic(context.spark, topic, ranges) for topic, ranges in planned.items()]

    def replay_range(self, context: SourceContext, topics: Sequence[str]) -> Mapping[str, Any]:
        found = _list_ranges(context)
        return {topic: [{}, found[topic].to_json()] for topic in topics if topic in found}

    def known_schemas(self, context: SourceContext) -> list[Events]:
        spark, found = context.spark, list[Events]()
        for name in self._find_tables(spark, ()):
            if (newest := self._tables.find_newest(spark, Table(name))) is not None:
                found.append(self._open_topic(spark, name, [VersionRange.plan(None, newest)]))
        return found

    def explain(self, error: BaseException) -> HeadraceError | None:
        found = self._tables.sink.explain(error)
        return found and self._name_source(found)

    def _open_topic(self, spark: SparkSession, name: str, ranges: Sequence[VersionRange]) -> Events:
        try:
            return self._rows.open(spark, name, ranges)
        except Exception as error:  # noqa: BLE001 - its table raises it, and the others continue
            known = error if isinstance(error, HeadraceError) else self.explain(error)
            return Events.of_failure(name, self._name_source(known) if known else error)

    def _find_tables(self, spark: SparkSession, known: Iterable[str]) -> list[str]:
        """Return the names of the tables; search for new ones if the last search is old."""
        if time.monotonic() >= self._search_at:
            config, known = self.config, {*known}
            self._names = find_tables(self._tables, spark, config.tables, config.exclude, known)
            self._search_at = time.monotonic() + config.table_poll_interval / 1000
        return self._names

    def _report_lost(self, topics: Iterable[str]) -> None:
        """Log each topic whose table no longer exists, or is no longer selected."""
        for topic in sorted({*topics} - self._lost):
            _LOG.warning(
                "%s, table %s: it no longer exists, or is not selected. Its rows stay", self._tables.label, topic
            )
        self._lost = {*topics}

    def _name_source(self, error: HeadraceError) -> HeadraceError:
        """Return an error of the sink of the format with the name of the source."""
        sink = self._tables.sink.name
        error.where = error.where and error.where.replace(f"sink {sink}", f"source {sink}")
        error.args = (error.what, error.where, error.fix)
        return error


def _list_ranges(context: SourceContext) -> dict[str, VersionRange]:
    """Return topic → the range of a batch, without the tables that have no new version."""
    if context.range is None:
        return {}
    start, end = (offset["tables"] for offset in context.range)
    return {topic: VersionRange.of_json(part) for topic, part in end.items() if start.get(topic) != part}
