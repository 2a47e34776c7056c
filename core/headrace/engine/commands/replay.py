"""Dead letters go through the pipeline again: after a fix, in their own order, and never twice.

Those that are replayed are moved to ``replay/`` of the checkpoint first, under a name that is not used again: by that name the
tables know what they have, so that a replay that was cut short goes on where it was.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

from headrace.checkpoint.layout import Checkpoint
from headrace.dead_letters.rows import MASKED, ReplayRun, first_seen, number_in_file, records_before, with_masked
from headrace.dead_letters.table_store import ID
from headrace.engine.plan.error_translation import translate
from headrace.engine.plan.routing import Target, route
from headrace.engine.read.change_reader import ChangeReader
from headrace.engine.read.schema_replanning import until_schemas_known
from headrace.engine.write.table_writer import TableWriter
from headrace.errors import ConfigError
from headrace.sdk import events as E
from headrace.sdk.changes import PREFIX
from headrace.sdk.events import Events
from headrace.sdk.reject_reason import RejectReason
from headrace.sdk.source import SourceContext
from headrace.spark.sessions import Sessions, move_to_session
from headrace.spark.storage import Folder

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from headrace.dead_letters.table_store import DeadLetterTable
    from headrace.engine.plan.pipeline_plan import Plan

#: A folder that is being written.
_UNFINISHED = "_taking"
#: Which folder is being moved to those under way, and its name there.
_CLAIM = "_claim"


@dataclass(frozen=True)
class ReplayResult:
    """What came of the dead letters of one table in one batch.

    ``again``: they are dead letters as they were; ``gone``: so are these, for their file is gone, or has fewer records.
    """

    table: str
    letters: int
    again: int
    gone: int = 0


@dataclass(frozen=True)
class ReplayFolder:
    """A folder of dead letters under way: ``<batch>+<a number no other has>+<what it was called>``."""

    name: str
    batch: int
    #: The batch as the folder spells it.
    batch_name: str
    unique: str
    origin: str

    @classmethod
    def parse(cls, name: str) -> ReplayFolder:
        batch, unique, origin, *_ = name.split("+")
        return cls(name, int(batch), batch, unique, origin)


def replay(
    plan: Plan, spark: SparkSession, *, reason: str | None = None, table: str | None = None
) -> Iterator[ReplayResult]:
    """Replays the dead letters of one reason or table, or all. No run may go on meanwhile."""
    if not plan.source.yields_records and plan.source.replay_range_of([]) is None:
        raise ConfigError(
            "its records are not replayed from dead letters",
            where=f"source {plan.source.name}",
            fix="put the repaired records into a new file; their positions say where they belong",
        )
    run = _Replay(plan, spark, _condition(plan, reason, table))
    try:
        run.end_claim()
        run.claim_files()
        if plan.dead_letter_table:
            run.claim_rows(plan.dead_letter_table)
        for name in run.under_way.names():
            yield from run.apply(ReplayFolder.parse(name))
    except Exception as error:
        raise translate(error, plan) from error


class _Replay:
    """One replay: claims dead letters, then applies what it claimed, folder by folder."""

    def __init__(self, plan: Plan, spark: SparkSession, condition: Column) -> None:
        """``condition``: which dead letters."""
        self._plan, self._spark, self._condition = plan, spark, condition
        self._checkpoint = Checkpoint(spark, plan.checkpoint, plan.name, partial(plan.open_schema_log, spark))
        self._sessions, self._reader = Sessions(spark, plan.sql_conf), ChangeReader(plan)
        self.under_way = self._checkpoint.replay

    def claim_files(self) -> None:
        """Moves folders that have dead letters of the condition to those under way."""
        stored = self._checkpoint.dead_letters
        for batch in stored.names():
            for name in stored.folder(batch).names():
                rows = self._load(self._spark, f"{stored.path}/{batch}/{name}")
                if not rows.where(self._condition).isEmpty():
                    self._claim(f"{stored.path}/{batch}/{name}", f"{batch}+{time.time_ns()}+{name}")
            if not stored.folder(batch).names():
                stored.delete(batch)

    def claim_rows(self, table: DeadLetterTable) -> None:
        """Moves dead letters from a table to files; they are in both for a moment."""
        from pyspark.sql import functions as F

        session, under_way = self._sessions.of("letters"), self.under_way
        for name in under_way.names():  # of a replay that was cut short then
            claimed = session.read.load(f"{under_way.path}/{name}")
            if ID in claimed.columns:
                table.remove(claimed)
        stored = table.read(session)
        if stored is None:
            return
        stored = with_masked(stored, hides=self._plan.hides_values)
        for batch, target in stored.where(self._condition).select("batch", "table").distinct().collect():
            name = f"{batch:010d}+{time.time_ns()}+{quote(target, safe='')}"
            rows = stored.where(self._condition & (F.col("batch") == batch) & (F.col("table") == target))
            rows.coalesce(1).write.mode("overwrite").save(f"{under_way.path}/{_UNFINISHED}")
            self._claim(f"{under_way.path}/{_UNFINISHED}", name)
            table.remove(session.read.load(f"{under_way.path}/{name}"))

    def _claim(self, folder: str, name: str) -> None:
        """Moves a folder to those under way, whole. On an object store its files move one by one: what is cut short is ended later."""
        self.under_way.write(_CLAIM, json.dumps([folder, name]))
        self.end_claim()

    def end_claim(self) -> None:
        """Moves what is left of a folder that is being claimed."""
        text = self.under_way.read(_CLAIM)
        if text is None:
            return
        path, name = json.loads(text)
        parent, _, last = path.rpartition("/")
        above, left = Folder(self._spark, parent), Folder(self._spark, path)
        target = self.under_way.folder(name)
        if left.exists() and not target.exists():
            above.move(last, target.path)
        for file in left.list_files():
            target.delete(file)
            left.move(file, f"{target.path}/{file}")
        above.delete(last)
        self.under_way.delete(_CLAIM)

    def apply(self, folder: ReplayFolder) -> Iterator[ReplayResult]:
        """Applies the dead letters of a folder; those that were not meant, or that nothing became of, are kept as they were."""
        from pyspark.sql import functions as F

        session = self._sessions.of("replay")
        claimed = self._load(session, f"{self.under_way.path}/{folder.name}")
        schemas, stream = self._checkpoint.schemas, self._checkpoint.stream
        limit = self._plan.settings.max_message_bytes
        context = SourceContext(session, schemas, batch=folder.batch, stream=stream, max_message_bytes=limit)
        missing_files = [] if self._plan.source.yields_records else self._find_missing_files(context, claimed)
        is_replayed = self._condition & F.coalesce(~F.col("file").isin(missing_files), F.lit(True))
        dead_letters = claimed.where(is_replayed)
        counts = {row["topic"]: row["count"] for row in dead_letters.groupBy("topic").count().collect()}
        written = self._write(folder, context, dead_letters)
        topics = [topic for target, _ in written for topic in target.topics]
        self._keep(folder, claimed.where(~(is_replayed & F.col("topic").isin(topics))))
        gone = claimed.where(self._condition & ~is_replayed).groupBy("table").count().collect()
        self.under_way.delete(folder.name)
        for target, again in written:
            yield ReplayResult(target.name, sum(counts[topic] for topic in target.topics), again)
        for table, count in gone:
            yield ReplayResult(table, 0, 0, count)

    def _load(self, session: SparkSession, path: str) -> DataFrame:
        return with_masked(session.read.load(path), hides=self._plan.hides_values)

    def _write(self, folder: ReplayFolder, context: SourceContext, dead_letters: DataFrame) -> list[tuple[Target, int]]:
        """The tables that were written, each with how many of its records are dead letters again."""
        run = ReplayRun(folder.unique, first_seen(dead_letters))
        writer = TableWriter(self._plan, self._checkpoint, self._sessions, replay=run)

        def read_and_apply() -> list[tuple[Target, int]]:
            targets, unrouted = route(self._events(context, dead_letters), self._plan.routes)
            if unrouted:
                raise ConfigError(
                    f"no rule of `tables:` names the topic {unrouted[0]!r} any more",
                    where="dead letters",
                    fix="add the rule that it had, or delete its folder in `replay/` of the checkpoint",
                )
            try:
                return [(target, writer.apply(target, folder.batch)[0].dead_letters) for target in targets]
            except Exception as error:  # an unknown writer schema is told from others by its plugin
                raise translate(error, self._plan) from error

        return until_schemas_known(read_and_apply, context.schemas)

    def _keep(self, folder: ReplayFolder, dead_letters: DataFrame) -> None:
        """Puts dead letters back to where they were claimed from."""
        if dead_letters.isEmpty():
            return
        table = self._plan.dead_letter_table
        if table and ID in dead_letters.columns:
            table.restore(dead_letters)
            return
        name = f"{folder.batch_name}/{folder.origin}+{folder.unique}+kept"
        dead_letters.coalesce(1).write.mode("overwrite").save(f"{self._checkpoint.dead_letters.path}/{name}")

    def _events(self, context: SourceContext, dead_letters: DataFrame) -> list[Events]:
        """The dead letters' records: as a broker gave them, or from their files once more."""
        from pyspark.sql import functions as F

        by_topic = {t: dead_letters.where(F.col("topic") == t) for t in _distinct(dead_letters, "topic")}
        if self._plan.source.yields_records:
            return self._reader.decode(context, {topic: partial(_records, own) for topic, own in by_topic.items()})
        ranges = {topic: [self._plan.source.replay_range_of(_distinct(own, "file"))] for topic, own in by_topic.items()}
        several = self._reader.read_replay(replace(context, replay=ranges))
        return [replace(events, load=partial(_load_from_files, events, by_topic[events.topic])) for events in several]

    def _find_missing_files(self, context: SourceContext, claimed: DataFrame) -> list[str]:
        """The files of dead letters that are not there any more, or that have fewer records."""
        from pyspark.sql import functions as F

        wanted = claimed.where(self._condition)
        dead_letters = {row["file"]: row["count"] for row in wanted.groupBy("file").count().collect()}
        records = {file: 0 for file in dead_letters if Folder(context.spark, unquote(file)).exists()}
        for events in self._events(context, wanted.where(F.col("file").isin(list(records)))):
            if events.error is not None:  # which its table will say
                return []
            counts = events.load(context.spark, events.schema).groupBy(E.FILE).count().collect()
            for row in counts:  # of each part of a topic
                records[row[E.FILE]] = records.get(row[E.FILE], 0) + row["count"]
        return [file for file in dead_letters if records.get(file, 0) < dead_letters[file]]


def _condition(plan: Plan, reason: str | None, table: str | None) -> Column:
    """Which dead letters are meant."""
    from pyspark.sql import functions as F

    conditions = [F.col(column) == value for column, value in (("reason", reason), ("table", table)) if value]
    if plan.source.yields_records:  # the others hold what the transforms made of them
        conditions.append(~F.col(MASKED))
        # What was kept of these is not the record.
        conditions.append(F.col("reason") != RejectReason.TOO_LARGE)
    return reduce(lambda a, b: a & b, conditions, F.lit(True))


def _records(dead_letters: DataFrame, session: SparkSession) -> DataFrame:
    """Dead letters as a broker gave them."""
    from pyspark.sql import functions as F

    columns = ("key", "value", "headers", "topic", "partition", "offset", F.col("seen").alias("timestamp"))
    return move_to_session(dead_letters.select(*columns), session)


def _load_from_files(events: Events, dead_letters: DataFrame, session: SparkSession, schema: StructType) -> DataFrame:
    """Those of the events that are dead letters."""
    from pyspark.sql import functions as F

    number, file, offset = (PREFIX + name for name in ("number", "letter_file", "letter_offset"))
    names = move_to_session(dead_letters.select(F.col("file").alias(file), F.col("offset").alias(offset)), session)
    frame = events.load(session, schema)
    frame = frame.where(F.col(E.VALUE).isNotNull() | F.col(E.ERROR).isNotNull())  # the others are no changes
    frame = frame.withColumn(number, number_in_file(E.OFFSET, E.FILE, E.PLACE))
    is_same = (F.col(E.FILE) == F.col(file)) & (F.col(number) == F.col(offset))
    # Those that are dead letters again are numbered once more, from here.
    matches = frame.join(F.broadcast(names), is_same, "left_semi")
    return matches.withColumn(E.OFFSET, F.col(number) - records_before(E.FILE, E.PLACE)).drop(number)


def _distinct(rows: DataFrame, column: str) -> Sequence[str]:
    return [row[column] for row in rows.select(column).distinct().collect()]
