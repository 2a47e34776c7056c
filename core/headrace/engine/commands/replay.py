"""Replay of dead letters: after a fix they go through the pipeline again, in their order and never twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import unquote

from headrace.checkpoint.layout import Checkpoint
from headrace.checkpoint.offset_log import digest_offsets
from headrace.dead_letters.replay_queue import ReplayItem, ReplayQueue, Selection
from headrace.dead_letters.rows import MASKED, ReplayRun, first_seen, keep_numbers, number_in_file, with_masked
from headrace.dead_letters.store import open_stores, read_all
from headrace.engine.batch.view_refresh import ViewRefresher
from headrace.engine.plan.error_translation import translate
from headrace.engine.plan.routing import Target, route
from headrace.engine.read.change_reader import ChangeReader
from headrace.engine.read.schema_replanning import Result, until_schemas_known
from headrace.engine.write.table_writer import TableWriter
from headrace.errors import ConfigError
from headrace.sdk import events as E
from headrace.sdk.changes import PREFIX
from headrace.sdk.events import Events
from headrace.sdk.reject_reason import RejectReason
from headrace.sdk.source import SourceContext
from headrace.spark.sessions import Sessions, move_to_session
from headrace.spark.storage import Folder
from headrace.suggestions import did_you_mean
from headrace.upsert.table_state import TableStates

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from headrace.engine.plan.pipeline_plan import Plan


@dataclass(frozen=True)
class ReplayResult:
    """Result of replaying the dead letters of one table in one batch.

    ``replayed``: dead letters that were applied; ``failed_again``: those of them that are dead letters again; ``missing``: dead
    letters left as they were, because their file no longer exists or has fewer records; ``incomplete``: dead letters left as they
    were, because their original bytes are not stored: they are masked, or were too large.
    """

    table: str
    replayed: int
    failed_again: int
    missing: int = 0
    incomplete: int = 0


@dataclass(frozen=True)
class _ReplayedTable:
    """Table with replayed records. ``topics``: topics whose dead letters are not put back."""

    name: str
    topics: tuple[str, ...]
    replayed: int
    failed_again: int


def replay(
    plan: Plan, spark: SparkSession, *, reason: str | None = None, table: str | None = None
) -> Iterator[ReplayResult]:
    """Replay the dead letters of one reason or table, or all. The pipeline must not run meanwhile."""
    if not plan.source.yields_records and plan.source.replay_range_of([]) is None:
        raise ConfigError(
            "its records cannot be replayed from dead letters",
            where=f"source {plan.source.name}",
            fix="put the repaired records into a new file; their positions determine their order",
        )
    if reason and reason not in (known := [str(item) for item in RejectReason]):
        raise ConfigError(f"unknown reason {reason!r}", fix=did_you_mean(reason, known))
    run = _Replay(plan, spark, Selection(reason or None, table or None))
    try:
        incomplete = run.count_incomplete()
        run.queue.finish_claim()
        if run.has_other_selections():  # An interrupted replay puts back dead letters that this one may select.
            yield from run.replay_items()
        run.claim()
        yield from run.replay_items()
        run.views.refresh(plan)
        run.raise_first_failure()
        run.views.raise_first_error()
        for name, count in incomplete.items():
            yield ReplayResult(name, 0, 0, incomplete=count)
    except Exception as error:
        raise translate(error, plan) from error


class _Replay:
    """One replay: claims dead letters, then applies what it claimed, item by item."""

    def __init__(self, plan: Plan, spark: SparkSession, selection: Selection) -> None:
        self._plan, self._selection = plan, selection
        self._selected, self._is_whole = selection.condition(), _is_whole(plan)
        self._checkpoint = Checkpoint(spark, plan.checkpoint, plan.name, partial(plan.open_schema_log, spark))
        self._sessions, self._reader = Sessions(spark, plan.sql_conf), ChangeReader(plan)
        self.views = ViewRefresher(self._checkpoint, self._sessions)
        self.views.clean(plan)
        self._stores = open_stores(plan.dead_letter_table, self._checkpoint.dead_letters)
        self.queue = ReplayQueue(spark, self._checkpoint.replay)
        #: Item → its error.
        self.failures: dict[str, Exception] = {}

    def count_incomplete(self) -> dict[str, int]:
        """Return table → number of its selected dead letters that cannot be replayed."""
        dead_letters = read_all(self._stores, self._sessions.of("dead_letters"))
        if dead_letters is None:
            return {}
        incomplete = self._with_masked(dead_letters).where(self._selected & ~self._is_whole)
        return {row["table"]: row["count"] for row in incomplete.groupBy("table").count().collect()}

    def claim(self) -> None:
        """Move the selected dead letters of all stores to the queue."""
        session, condition = self._sessions.of("dead_letters"), self._selected & self._is_whole
        for store in reversed(self._stores):
            store.claim(session, lambda rows: self._with_masked(rows).where(condition), self.queue)

    def has_other_selections(self) -> bool:
        """Return whether a replay with another selection was interrupted."""
        found = [self.queue.read_selection(item) for item in self.queue.items()]
        selections = [(item.reason, item.table) for item in found if item is not None]
        return any(selection != (self._selection.reason, self._selection.table) for selection in selections)

    def replay_items(self) -> Iterator[ReplayResult]:
        """Apply the claimed items, and put back the rest of each. An item that fails stays claimed, and the others continue."""
        for item in self.queue.items():
            if item.name in self.failures:
                continue
            try:
                yield from self.replay_item(item)
            except Exception as error:  # noqa: BLE001 - raised after the other items
                self.failures[item.name] = error

    def raise_first_failure(self) -> None:
        """Raise the error of the first item that failed."""
        for error in self.failures.values():
            raise error

    def replay_item(self, item: ReplayItem) -> Iterator[ReplayResult]:
        """Apply the selected dead letters of an item; put back the others, and those that no table took."""
        from pyspark.sql import functions as F

        session = self._sessions.of("replay")
        claimed = self._with_masked(session.read.load(self.queue.path(item)))
        schemas, stream = self._checkpoint.schemas, self._checkpoint.stream
        limit = self._plan.settings.max_message_bytes
        context = SourceContext(session, schemas, batch=item.batch, stream=stream, max_message_bytes=limit)
        selection = self.queue.read_selection(item) or self._begin(item, context, claimed)
        is_selected = selection.condition() & self._is_whole
        is_replayed = is_selected & F.coalesce(~F.col("file").isin(*selection.missing_files), F.lit(True))
        dead_letters = claimed.where(is_replayed)
        counts = {row["topic"]: row["count"] for row in dead_letters.groupBy("topic").count().collect()}
        written = self._write(item, context, dead_letters, counts)
        topics = [topic for found in written for topic in found.topics]
        self._restore(item, claimed.where(~(is_replayed & F.col("topic").isin(topics))))
        self.queue.save_selection(item, replace(selection, is_restored=True))
        missing = claimed.where(is_selected & ~is_replayed).groupBy("table").count().collect()
        self.queue.remove(item)
        for found in written:
            yield ReplayResult(found.name, found.replayed, found.failed_again)
        for table, count in missing:
            yield ReplayResult(table, 0, 0, count)

    def _begin(self, item: ReplayItem, context: SourceContext, claimed: DataFrame) -> Selection:
        """Store what the first attempt at an item applies. Later attempts apply the same: a table skips what it has."""
        missing: list[str] = []
        if not self._plan.source.yields_records:
            selected = claimed.where(self._selected & self._is_whole)
            missing = self._until_schemas_known(lambda: self._find_missing_files(context, selected))
        selection = replace(self._selection, missing_files=tuple(missing))
        self.queue.save_selection(item, selection)
        return selection

    def _with_masked(self, dead_letters: DataFrame) -> DataFrame:
        return with_masked(dead_letters, hides=self._plan.hides_values)

    def _write(
        self, item: ReplayItem, context: SourceContext, dead_letters: DataFrame, counts: Mapping[str, int]
    ) -> list[_ReplayedTable]:
        """Write the tables of dead letters. ``counts``: topic → its dead letters."""
        states = TableStates(self._checkpoint, self._plan.delete_retention_of)
        run = ReplayRun(item.unique, first_seen(dead_letters))

        def write(target: Target) -> int:
            plan = self._plan.for_table(target.name)
            writer = TableWriter(plan, self._checkpoint, self._sessions, states, self.views.capture, replay=run)
            return writer.write_table(target, item.batch, digest_offsets(item.unique))[0].dead_letters

        def read_and_write() -> list[_ReplayedTable]:
            events = self._events(context, dead_letters)
            metadata = self._plan.find_metadata(events)
            targets, unrouted = route([e for e in events if e.topic not in metadata], self._plan.routes)
            if unrouted:
                raise ConfigError(
                    f"no rule of `tables:` matches the topic {unrouted[0]!r}",
                    where="dead letters",
                    fix="add the rule that it had, or delete its folder in `replay/` of the checkpoint",
                )
            # Metadata among rows is a dead letter. A replay reads it without these rows if it has a file of its own.
            names = {topic: self._plan.routes.table_of(topic) or topic for topic in metadata}
            tables = [_ReplayedTable(name, (), counts[topic], counts[topic]) for topic, name in names.items()]
            for target in targets:
                failed_again = write(target)
                # A topic of several tables is read for each of them.
                if replayed := _count_records(target, targets, context.spark, counts):
                    tables.append(_ReplayedTable(target.name, tuple(target.topics), replayed, failed_again))
            return tables

        return self._until_schemas_known(read_and_write)

    def _until_schemas_known(self, read: Callable[[], Result]) -> Result:
        """Return the result of a call that reads records. Repeat it with the writer schemas that were unknown."""

        def read_and_translate() -> Result:
            try:
                return read()
            except Exception as error:  # Only the plugin recognizes an unknown writer schema.
                raise translate(error, self._plan) from error

        return until_schemas_known(read_and_translate, self._checkpoint.schemas)

    def _restore(self, item: ReplayItem, dead_letters: DataFrame) -> None:
        """Put dead letters back where they were claimed from."""
        if not dead_letters.isEmpty():
            next(store for store in self._stores if store.has_stored(dead_letters)).restore(dead_letters, item)

    def _events(self, context: SourceContext, dead_letters: DataFrame) -> list[Events]:
        """Return the dead letters' records as events: as the broker sent them, or read from their files again."""
        from pyspark.sql import functions as F

        by_topic = {t: dead_letters.where(F.col("topic") == t) for t in _list_distinct(dead_letters, "topic")}
        if self._plan.source.yields_records:
            return self._reader.decode(context, {topic: partial(_load_records, own) for topic, own in by_topic.items()})
        ranges = {
            topic: [self._plan.source.replay_range_of(_list_distinct(own, "file"))] for topic, own in by_topic.items()
        }
        batch_events = self._reader.read_replay(replace(context, replay=ranges))
        return [
            replace(events, load=partial(_load_from_files, events, by_topic[events.topic])) for events in batch_events
        ]

    def _find_missing_files(self, context: SourceContext, selected: DataFrame) -> list[str]:
        """Return the files of dead letters that no longer exist, or have fewer records."""
        from pyspark.sql import functions as F

        dead_letters = {row["file"]: row["count"] for row in selected.groupBy("file").count().collect()}
        records = {file: 0 for file in dead_letters if Folder(context.spark, unquote(file)).exists()}
        for events in self._events(context, selected.where(F.col("file").isin(list(records)))):
            if events.error is not None:  # Its table reports it.
                return []
            counts = events.load(context.spark, events.schema).groupBy(E.FILE).count().collect()
            for row in counts:  # One per part of a topic.
                records[row[E.FILE]] = records.get(row[E.FILE], 0) + row["count"]
        return [file for file in dead_letters if records.get(file, 0) < dead_letters[file]]


def _count_records(target: Target, targets: Sequence[Target], session: SparkSession, counts: Mapping[str, int]) -> int:
    """Return the number of a table's records. ``counts``: topic → its records, which may be of several of the ``targets``."""
    topics = Counter(events.topic for each in targets for events, _ in each.sources)
    return sum(
        counts[events.topic] if topics[events.topic] == 1 else events.load(session, events.schema).count()
        for events, _ in target.sources
    )


def _is_whole(plan: Plan) -> Column:
    """Return whether the record of a dead letter can be read: from its file, or from its complete original bytes."""
    from pyspark.sql import functions as F

    if not plan.source.yields_records:
        return F.lit(True)
    return ~F.col(MASKED) & (F.col("reason") != RejectReason.TOO_LARGE)


def _load_records(dead_letters: DataFrame, session: SparkSession) -> DataFrame:
    """Return dead letters as records of a broker."""
    from pyspark.sql import functions as F

    # Dead letters of older releases lack the timestamps of their records.
    timestamp = F.coalesce(*[F.col(name) for name in ("timestamp", "seen") if name in dead_letters.columns])
    columns = ("key", "value", "headers", "topic", "partition", "offset", timestamp.alias("timestamp"))
    return move_to_session(dead_letters.select(*columns), session)


def _load_from_files(events: Events, dead_letters: DataFrame, session: SparkSession, schema: StructType) -> DataFrame:
    """Return the events that are dead letters."""
    from pyspark.sql import functions as F

    file, offset = (PREFIX + name for name in ("dead_letter_file", "dead_letter_offset"))
    names = move_to_session(dead_letters.select(F.col("file").alias(file), F.col("offset").alias(offset)), session)
    frame = events.load(session, schema)
    frame = frame.where(F.col(E.VALUE).isNotNull() | F.col(E.ERROR).isNotNull())  # Other records are not changes.
    frame = frame.withColumn(E.OFFSET, number_in_file(E.OFFSET, E.FILE, E.PLACE))
    is_same = (F.col(E.FILE) == F.col(file)) & (F.col(E.OFFSET) == F.col(offset))
    # Records that are dead letters again are numbered from here.
    matches = frame.join(F.broadcast(names), is_same, "left_semi")
    return keep_numbers(matches, E.OFFSET, E.FILE, E.PLACE)


def _list_distinct(rows: DataFrame, column: str) -> Sequence[str]:
    return [row[column] for row in rows.select(column).distinct().collect()]
