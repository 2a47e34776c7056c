"""Dead letters go through the pipeline again: after a fix, in their own order, and never twice.

A folder of dead letters is moved to ``replay/`` of the checkpoint first, under a name that is not used again: by that name the
tables know what they have, so a replay that was cut short goes on where it was.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

from headrace.checkpoint.layout import Checkpoint
from headrace.dead_letters.rows import Again, before, first_seen, number_in_file
from headrace.dead_letters.table_store import ID
from headrace.engine.batch import REPLANS, targets_of
from headrace.engine.error_translation import translate
from headrace.engine.table import TableWriter
from headrace.errors import ConfigError
from headrace.sdk import events as E
from headrace.sdk.changes import PREFIX
from headrace.sdk.events import Events
from headrace.sdk.format import UnknownSchemaError
from headrace.sdk.reject_reason import UNREADABLE
from headrace.sdk.source import SourceContext
from headrace.spark.sessions import Sessions, move_to_session
from headrace.spark.storage import Folder

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from headrace.dead_letters.table_store import LettersTable
    from headrace.engine.plan import Plan

#: A folder that is being written.
_TAKING = "_taking"


@dataclass(frozen=True)
class Replayed:
    """What came of the dead letters of one table in one batch.

    ``replay``: they are dead letters as they were; ``gone``: so are these, for their file is gone, or has fewer records.
    """

    table: str
    letters: int
    again: int
    gone: int = 0


def replay(
    plan: Plan, spark: SparkSession, *, reason: str | None = None, table: str | None = None
) -> Iterator[Replayed]:
    """Replays those of one reason or table, or all. No run may go on meanwhile."""
    if not plan.source.yields_records and plan.source.replay_range_of([]) is None:
        raise ConfigError(
            "its records are not replayed from dead letters",
            where=f"source {plan.source.name}",
            fix="put the repaired records into a new file; their positions say where they belong",
        )
    checkpoint = Checkpoint(spark, plan.checkpoint, plan.name)
    plan.tell(checkpoint.schemas, spark)
    letters, under_way = checkpoint.dead_letters, checkpoint.folder.folder("replay")
    wanted = _wanted(plan, reason, table)
    for batch in letters.names():
        for name in letters.folder(batch).names():
            held = spark.read.load(f"{letters.path}/{batch}/{name}")
            if not held.where(wanted).isEmpty():
                letters.move(f"{batch}/{name}", f"{under_way.path}/{batch}+{time.time_ns()}+{name}")
        if not letters.folder(batch).names():
            letters.delete(batch)
    sessions = Sessions(spark, plan.sql_conf)
    if plan.letters:
        _take(plan.letters, sessions.of("letters"), under_way, wanted)
    for name in under_way.names():
        try:
            yield from _replayed(plan, checkpoint, sessions, under_way, name, wanted)
        except Exception as error:
            raise translate(error, plan) from error


def _take(table: LettersTable, session: SparkSession, under_way: Folder, wanted: Column) -> None:
    """Moves letters from a table to files; they are in both for a moment."""
    from pyspark.sql import functions as F

    for name in under_way.names():  # of a replay that was cut short then
        moved_before = session.read.load(f"{under_way.path}/{name}")
        if ID in moved_before.columns:
            table.remove(moved_before)
    found = table.read(session)
    if found is None:
        return
    for batch, target in found.where(wanted).select("batch", "table").distinct().collect():
        name = f"{batch:010d}+{time.time_ns()}+{quote(target, safe='')}"
        mine = found.where(wanted & (F.col("batch") == batch) & (F.col("table") == target))
        mine.coalesce(1).write.mode("overwrite").save(f"{under_way.path}/{_TAKING}")
        under_way.move(_TAKING, f"{under_way.path}/{name}")  # whole, or not at all
        table.remove(session.read.load(f"{under_way.path}/{name}"))


def _wanted(plan: Plan, reason: str | None, table: str | None) -> Column:
    from pyspark.sql import functions as F

    conditions = [F.col(column) == value for column, value in (("reason", reason), ("table", table)) if value]
    if plan.hides_values and plan.source.yields_records:  # the others hold what the transforms made of them
        conditions.append(F.col("reason").isin(*UNREADABLE))
    return reduce(lambda a, b: a & b, conditions, F.lit(True))


def _replayed(
    plan: Plan, checkpoint: Checkpoint, sessions: Sessions, under_way: Folder, name: str, wanted: Column
) -> Iterator[Replayed]:
    from pyspark.sql import functions as F

    batch, unique, own, *_ = name.split("+")
    session = sessions.of("replay")
    held = session.read.load(f"{under_way.path}/{name}")
    context = SourceContext(session, checkpoint.schemas, batch=int(batch), stream=checkpoint.stream)
    gone = [] if plan.source.yields_records else _gone(plan, context, held.where(wanted))
    chosen = wanted & F.coalesce(~F.col("file").isin(gone), F.lit(True))
    letters = held.where(chosen)
    counts = {row["topic"]: row["count"] for row in letters.groupBy("topic").count().collect()}
    mine = copy.copy(checkpoint)
    mine.id = f"{checkpoint.id}/replay/{unique}"
    write = TableWriter(plan, mine, sessions, again=Again(unique, first_seen(letters)))
    for left in reversed(range(REPLANS)):
        targets, unrouted = targets_of(_events(plan, context, letters), plan.routes)
        if unrouted:
            raise ConfigError(
                f"no rule of `tables:` names the topic {unrouted[0]!r} any more",
                where="dead letters",
                fix="add the rule that it had, or delete its folder in `replay/` of the checkpoint",
            )
        try:
            written = [(target, write(target, int(batch))[0].dead_letters) for target in targets]
            break
        except UnknownSchemaError:
            if not left:
                raise
    found = {events.topic for target in targets for events, _ in target.sources}
    kept = held.where(~(chosen & F.col("topic").isin(*found)))
    if not kept.isEmpty():
        if plan.letters and ID in kept.columns:
            plan.letters.put_back(kept)
        else:
            kept.coalesce(1).write.mode("overwrite").save(f"{checkpoint.dead_letters.path}/{batch}/{own}+{unique}+kept")
    stay = held.where(wanted & ~chosen).groupBy("table").count().collect()
    under_way.delete(name)
    for target, again in written:
        yield Replayed(target.name, sum(counts[events.topic] for events, _ in target.sources), again)
    for table, count in stay:
        yield Replayed(table, 0, 0, count)


def _events(plan: Plan, context: SourceContext, letters: DataFrame) -> list[Events]:
    """The letters' records: as a broker gave them, or from their files once more."""
    from pyspark.sql import functions as F

    mine = {topic: letters.where(F.col("topic") == topic) for topic in _distinct(letters, "topic")}
    if plan.source.yields_records:
        return plan.decoded(context, {topic: partial(_records, own) for topic, own in mine.items()})
    places = {topic: [plan.source.replay_range_of(_distinct(own, "file"))] for topic, own in mine.items()}
    again = plan.events_of_replay(replace(context, replay=places))
    return [replace(events, load=partial(_from_files, events, mine[events.topic])) for events in again]


def _records(letters: DataFrame, session: SparkSession) -> DataFrame:
    """Letters as a broker gave them."""
    from pyspark.sql import functions as F

    columns = ("key", "value", "headers", "topic", "partition", "offset", F.col("seen").alias("timestamp"))
    return move_to_session(letters.select(*columns), session)


def _from_files(events: Events, letters: DataFrame, session: SparkSession, schema: StructType) -> DataFrame:
    """Those of the events that are letters."""
    from pyspark.sql import functions as F

    number, file, offset = (PREFIX + name for name in ("number", "letter_file", "letter_offset"))
    mine = move_to_session(letters.select(F.col("file").alias(file), F.col("offset").alias(offset)), session)
    frame = events.load(session, schema)
    frame = frame.where(F.col(E.VALUE).isNotNull() | F.col(E.ERROR).isNotNull())  # the others are no changes
    frame = frame.withColumn(number, number_in_file(E.OFFSET, E.FILE, E.PLACE))
    same = (F.col(E.FILE) == F.col(file)) & (F.col(number) == F.col(offset))
    # Those that are dead letters again are numbered once more, from here.
    found = frame.join(F.broadcast(mine), same, "left_semi")
    return found.withColumn(E.OFFSET, F.col(number) - before(E.FILE, E.PLACE)).drop(number)


def _gone(plan: Plan, context: SourceContext, letters: DataFrame) -> list[str]:
    """The files of letters that are not there any more, or that have fewer records."""
    from pyspark.sql import functions as F

    held = {row["file"]: row["count"] for row in letters.groupBy("file").count().collect()}
    found = {file: 0 for file in held if Folder(context.spark, unquote(file)).exists()}
    for events in _events(plan, context, letters.where(F.col("file").isin(list(found)))):
        if events.error is not None:  # which its table will say
            return []
        counts = events.load(context.spark, events.schema).groupBy(E.FILE).count().collect()
        found.update({row[E.FILE]: row["count"] for row in counts})
    return [file for file in held if found.get(file, 0) < held[file]]


def _distinct(letters: DataFrame, column: str) -> list[str]:
    return [row[column] for row in letters.select(column).distinct().collect()]
