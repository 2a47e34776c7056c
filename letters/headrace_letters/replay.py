"""Dead letters go through the pipeline again: after a fix, in their own order, and never twice.

A folder of dead letters is moved to ``replay/`` of the checkpoint first, under a name that is not used again: by that name the
tables know what they have, so a replay that was cut short goes on where it was.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial, reduce
from typing import TYPE_CHECKING
from urllib.parse import quote

from headrace.contracts.format import UnknownSchemaError
from headrace.contracts.reason import UNREAD
from headrace.contracts.source import SourceContext
from headrace.engine.batch import REPLANS, targets_of
from headrace.engine.checkpoint import Checkpoint
from headrace.engine.table import TableWriter
from headrace.engine.trouble import explained
from headrace.errors import ConfigError
from headrace.spark.sessions import Sessions, moved
from headrace_letters.tables import ID

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from headrace.engine.plan import Plan
    from headrace.engine.storage import Folder
    from headrace_letters.tables import LettersTable

#: A folder that is being written.
_TAKING = "_taking"


@dataclass(frozen=True)
class Replayed:
    """What came of the dead letters of one table in one batch. ``again``: they are dead letters as they were."""

    table: str
    letters: int
    again: int


def replay(
    plan: Plan, spark: SparkSession, *, reason: str | None = None, table: str | None = None
) -> Iterator[Replayed]:
    """Replays those of one reason or table, or all. No run may go on meanwhile."""
    if not plan.source.gives_records:
        raise ConfigError(
            "its records are not replayed from dead letters",
            where=f"source {plan.source.name}",
            fix="put the repaired records into a new file; their positions say where they belong",
        )
    checkpoint = Checkpoint(spark, plan.checkpoint, plan.name)
    plan.tell(checkpoint.schemas, spark)
    letters, under_way = checkpoint.folder.folder("dead_letters"), checkpoint.folder.folder("replay")
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
            raise explained(error, plan) from error


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
    if plan.hides:  # the others hold what the transforms made of them
        conditions.append(F.col("reason").isin(*UNREAD))
    return reduce(lambda a, b: a & b, conditions, F.lit(True))


def _replayed(
    plan: Plan, checkpoint: Checkpoint, sessions: Sessions, under_way: Folder, name: str, wanted: Column
) -> Iterator[Replayed]:
    from pyspark.sql import functions as F

    batch, unique, folder = name.split("+", 2)
    session = sessions.of("replay")
    held = session.read.load(f"{under_way.path}/{name}")
    letters = held.where(wanted)
    counts = {row["topic"]: row["count"] for row in letters.groupBy("topic").count().collect()}
    mine = copy.copy(checkpoint)
    mine.id = f"{checkpoint.id}/replay/{unique}"
    write = TableWriter(plan, mine, sessions)
    context = SourceContext(session, checkpoint.schemas, batch=int(batch), stream=checkpoint.stream)
    records = {topic: partial(_records, letters, topic) for topic in counts}
    for left in reversed(range(REPLANS)):
        targets, unrouted = targets_of(plan.decoded(context, records), plan.routes)
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
    kept = held.where(~(wanted & F.col("topic").isin(*found)))
    if not kept.isEmpty():
        if plan.letters and ID in kept.columns:
            plan.letters.put_back(kept)
        else:
            kept.coalesce(1).write.mode("overwrite").save(f"{checkpoint.dead_letters}/{batch}/{folder}+{unique}")
    under_way.delete(name)
    for target, again in written:
        yield Replayed(target.name, sum(counts[events.topic] for events, _ in target.sources), again)


def _records(letters: DataFrame, topic: str, session: SparkSession) -> DataFrame:
    """The letters of a topic as a broker gave them."""
    from pyspark.sql import functions as F

    mine = letters.where(F.col("topic") == topic)
    columns = ("key", "value", "headers", "topic", "partition", "offset", F.col("seen").alias("timestamp"))
    return moved(mine.select(*columns), session)
