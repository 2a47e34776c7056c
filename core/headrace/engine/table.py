"""One table of one batch: its changes counted, folded to one a key, written into every sink; what is wrong set aside."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import TYPE_CHECKING

from headrace.checkpoint.layout import Checkpoint
from headrace.dead_letters import rows as letters
from headrace.engine.compatibility import reject_incompatible
from headrace.engine.error_translation import translate
from headrace.engine.metrics import Count, outcome
from headrace.engine.plan import Plan
from headrace.engine.routing import Route
from headrace.errors import ConfigError, DataError, RetriableError
from headrace.progress.model import TableProgress
from headrace.sdk.changes import (
    COMMITTED,
    DELETED,
    ERROR,
    KEY_CHANGE_POSITION,
    NEW_KEY,
    OP,
    POSITION,
    PREFIX,
    UNAVAILABLE,
    Changes,
)
from headrace.sdk.events import Events
from headrace.sdk.format import UnknownSchemaError
from headrace.sdk.positions import in_epoch
from headrace.sdk.reject_reason import RejectReason
from headrace.sdk.sink import OPERATION, Batch, Sink, Table, TableMode, WriteResult
from headrace.spark.columns import quote_name
from headrace.spark.job_tags import tag_jobs
from headrace.spark.sessions import Sessions, move_to_session
from headrace.upsert import unavailable as unchanged
from headrace.upsert.deduplicate import latest_per_key
from headrace.upsert.table_state import Memory

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: What is said of a table whose rows cannot be found again.
KEYLESS = "its events carry no key, so every change is a row, with its `__op`; `key:` in `tables:` names key columns"
#: Tries of one table in one batch when its sink says that it is worth one, and the seconds before the next.
TRIES, PAUSE = 4, 1.0


@dataclass(frozen=True)
class Target:
    """A table with what a batch has for it."""

    name: str
    sources: tuple[tuple[Events, Route], ...]


class TableWriter:
    """Applies a table's part of a batch; the same part again changes nothing."""

    def __init__(
        self, plan: Plan, checkpoint: Checkpoint, sessions: Sessions, *, again: letters.Again | None = None
    ) -> None:
        """``replay``: what is applied are dead letters that are replayed."""
        self._plan, self._checkpoint, self._sessions = plan, checkpoint, sessions
        self._again = again
        #: Of a table, by its name.
        self._memory = functools.cache(partial(Memory, checkpoint.folder, retention=plan.delete_retention))
        #: Table → whether some of its changes leave values out, as far as it was seen.
        self._partial: dict[str, bool] = {}

    def __call__(self, target: Target, batch_id: int) -> list[TableProgress]:
        """What came of it, per sink."""
        if target.name not in self._partial:  # where it was so before, a change that tells all may be late
            may_be = any(self._plan.dialect(events).unavailable_tests(events.schema) for events, _ in target.sources)
            self._partial[target.name] = may_be and any(map(partial(self._was_partial, target), self._plan.sinks))
        try:
            return self._apply(target, batch_id)
        except Exception as error:
            if self._partial[target.name] or not unchanged.was_met(error):
                raise
            self._partial[target.name] = True
            return self._apply(target, batch_id)

    def _apply(self, target: Target, batch_id: int) -> list[TableProgress]:
        with ExitStack() as meanwhile:
            return self._applied(target, batch_id, meanwhile)

    def _applied(self, target: Target, batch_id: int, meanwhile: ExitStack) -> list[TableProgress]:
        from pyspark.sql import functions as F

        clock = time.monotonic()
        changes = self._changes(target)
        table = Table(target.name, tuple(changes.key_columns))
        modes = {sink: self._plan.mode(sink, changes) for sink in self._plan.sinks}
        if "upsert" in modes.values() and not table.key:
            raise DataError(
                "its events carry no key, so rows cannot be found again",
                where=f"table {target.name}",
                fix="name the key columns: `tables: - {source: …, key: [id]}`, or write `mode: append`",
            )
        good = F.col(ERROR).isNull()
        arrived = Count(
            rows_in=F.count(F.lit(1)),
            errors=F.count(F.col(ERROR)),
            newest_ms=F.max(F.when(good, F.col(COMMITTED))),
            oldest_ms=F.min(F.when(good, F.col(COMMITTED))),
            # Each aggregate costs every record: of what is merged, deletes are counted when one row is left of each key.
            **({"deletes": F.count_if(good & F.col(DELETED))} if "append" in modes.values() else {}),
        )
        changelog = "changelog" in modes.values()
        rows = _good(arrived.on(changes.frame), changes, self._checkpoint.epochs.of(batch_id), op=changelog)
        left_out = unchanged.columns_of(rows)
        appended = rows
        if left_out:
            takes_columns = all(s.capabilities.schema_evolution for s, mode in modes.items() if mode != "upsert")
            appended = (unchanged.named(rows) if takes_columns else rows.drop(UNAVAILABLE)).drop(
                NEW_KEY, KEY_CHANGE_POSITION
            )
        frames: dict[TableMode, DataFrame] = {"append": appended.drop(OP)}
        if changelog:  # what was removed is a row of it
            frames["changelog"] = appended.withColumnRenamed(OP, OPERATION).withColumn(DELETED, F.lit(False))
            rows = rows.drop(OP)
        counts: dict[TableMode, Count] = {"append": arrived}  # all that is good is written, and that is counted already
        memory = self._memory(table.name)
        deleted = memory.deleted if self._plan.delete_retention and "upsert" in modes.values() else None
        if "upsert" in modes.values():
            rows = memory.truncated.drop_older(rows)
            if NEW_KEY in rows.columns:
                first = next(sink for sink, mode in modes.items() if mode == "upsert")
                stored = partial(self._stored, first, table, rows.sparkSession)
                rows = meanwhile.enter_context(memory.moved.told(rows, table.key, batch_id, stored))
            real = ~F.col(unchanged.GIFT) if unchanged.GIFT in rows.columns else F.lit(True)
            counts["upsert"] = Count(rows=F.count_if(real), deletes=F.count_if(F.col(DELETED)))
            newest = counts["upsert"].on((unchanged.folded if left_out else latest_per_key)(rows, table.key))
            late = deleted.drop_late(newest, table.key) if deleted else nullcontext(newest)
            frames["upsert"] = meanwhile.enter_context(late)
        kept_rows = NEW_KEY in changes.own_columns and "upsert" in modes.values()  # so that only the fold is done again
        cache = len(modes) > 1 or not self._plan.sinks[0].capabilities.single_pass or bool(left_out and not kept_rows)
        with _kept({mode: frames[mode] for mode in modes.values()}, cache) as kept:
            written = self._write_all(table, modes, kept, batch_id, left_out)
            readable = time.time()
            unread = not cache and all(result.skipped for result in written)  # so nothing was counted
            # Each is asked once, however many read it: one that is not delivered costs its whole wait.
            found = {mode: {} if unread else count.result() for mode, count in counts.items()}
            if deleted and found["upsert"].get("deletes") != 0:
                deleted.remember(kept["upsert"], table.key, batch_id)
        found["changelog"] = seen = found["append"]
        if "rows_in" in seen:
            seen["good"] = seen["rows_in"] - seen["errors"]
        if seen.get("errors") != 0:
            emptied = [s for s, mode in modes.items() if mode == "upsert"] if self._plan.removes_rows else []
            seen["errors"], seen["dropped"] = self._no_rows(target, table, emptied, batch_id)
        note = None if table.key or not changelog else KEYLESS
        return [
            replace(
                outcome(target.name, sink.name, result, seen, found[mode], readable, time.monotonic() - clock),
                note=note,
            )
            for (sink, mode), result in zip(modes.items(), written, strict=True)
        ]

    def _changes(self, target: Target, *, whole: bool = False) -> Changes:
        session = self._session(target)
        partial = self._partial[target.name]
        parts = [
            self._plan.changes(session, events, route, whole=whole, partial=partial) for events, route in target.sources
        ]
        changes = _united(parts, target.name)
        if RejectReason.SCHEMA_INCOMPATIBLE not in self._plan.rules.policies:
            return changes
        tables = [self._stored(sink, Table(target.name), session) for sink in self._plan.sinks]
        return reduce(lambda rest, table: reject_incompatible(table.schema, rest), filter(None, tables), changes)

    def _session(self, target: Target) -> SparkSession:
        """The one in which the first sink writes the table."""
        return self._sessions.of(f"{target.name}/{self._plan.sinks[0].name}/0")

    def _write_all(
        self,
        table: Table,
        modes: Mapping[Sink, TableMode],
        frames: Mapping[TableMode, DataFrame],
        batch_id: int,
        left_out: Sequence[str],
    ) -> list[WriteResult]:
        with ThreadPoolExecutor(max_workers=len(modes), thread_name_prefix="headrace-sink") as pool:
            batches = {
                mode: Batch(self._checkpoint.id, batch_id, "append" if mode == "changelog" else mode)
                for mode in modes.values()
            }
            jobs = [
                pool.submit(self._write, sink, number, table, frames[mode], batches[mode], left_out)
                for number, (sink, mode) in enumerate(modes.items())
            ]
            return [job.result() for job in jobs]

    def _write(
        self, sink: Sink, number: int, table: Table, rows: DataFrame, batch: Batch, left_out: Sequence[str]
    ) -> WriteResult:
        session = self._sessions.of(f"{table.name}/{sink.name}/{number}")
        mine = rows if number == 0 else move_to_session(rows, session)

        def write() -> WriteResult:
            if not left_out or batch.mode == "append":
                return sink.write(table, mine, batch)
            with unchanged.merged(mine, self._stored(sink, table, session), table.key, left_out) as whole:
                return sink.write(table, whole, batch)

        with tag_jobs(session, table.name):
            return self._tried(sink, table, write)

    def _tried(self, sink: Sink, table: Table, write: Callable[[], WriteResult]) -> WriteResult:
        """What comes of a write, which is tried again when its sink says that it is worth it."""
        for attempt in range(1, TRIES + 1):
            try:
                return write()
            except Exception as raised:
                error = translate(raised, self._plan, sink)
                error.where = error.where or f"table {table.name}, sink {sink.name}"
                if attempt == TRIES or not isinstance(error, RetriableError) or isinstance(error, UnknownSchemaError):
                    raise error from raised
                time.sleep(PAUSE * 2 ** (attempt - 1))
        raise AssertionError("unreachable")

    @staticmethod
    def _stored(sink: Sink, table: Table, session: SparkSession) -> DataFrame | None:
        """The table's own columns and headrace's; None when it is not there."""
        try:
            frame = sink.read_back(session, table)
        except ConfigError:
            return None
        hidden = tuple(prefix for prefix in sink.hidden_prefixes if prefix != PREFIX)
        return frame.select(*[frame[quote_name(c)] for c in frame.columns if not hidden or not c.startswith(hidden)])

    def _was_partial(self, target: Target, sink: Sink) -> bool:
        """Whether a sink's table has had changes that left values out."""
        stored = self._stored(sink, Table(target.name), self._session(target)) if sink.capabilities.upsert else None
        return stored is not None and unchanged.ORIGIN in stored.columns

    def _no_rows(self, target: Target, table: Table, upserts: Sequence[Sink], batch_id: int) -> tuple[int, int]:
        """Sees to the events of a batch that are no rows: empties the table, keeps dead letters.

        How many dead letters there are, and how many were left out.
        """
        from pyspark.sql import functions as F

        changes = self._changes(target, whole=True)
        truncate = F.col(ERROR) == RejectReason.TRUNCATED
        position = in_epoch(F.col(POSITION), self._checkpoint.epochs.of(batch_id))
        emptied = F.max(F.when(truncate, position)) if upserts else F.lit(None)
        reasons = changes.frame.where(F.col(ERROR).isNotNull()).groupBy(ERROR).agg(F.count("*"), emptied).collect()
        counts = {reason: count for reason, count, _ in reasons}
        newest = max((newest for *_, newest in reasons if newest is not None), default=None)
        if newest is not None:
            self._empty(table, upserts, newest, batch_id)
            del counts[RejectReason.TRUNCATED]
        dropped = self._plan.rules.dropped(counts, target.name)
        if counts.keys() - dropped.keys():
            found = letters.of(
                changes,
                batch=batch_id,
                table=target.name,
                hide=self._plan.hides_values,
                plugins=self._plan.finders(target.sources[0][0]),
                without=[*dropped, *([RejectReason.TRUNCATED] if newest is not None else [])],
                again=self._again,
            )
            self._keep(found, batch_id, target.name)
        return sum(counts.values()) - sum(dropped.values()), sum(dropped.values())

    def _keep(self, found: DataFrame, batch_id: int, name: str) -> None:
        """Keeps dead letters where the file says."""
        kept = self._plan.letters
        if kept is None:
            letters.save(found, self._checkpoint.dead_letters, batch_id, name, self._again)
        else:
            self._tried(kept.sink, kept.table, partial(kept.keep, found, self._checkpoint.id, batch_id, name))

    def _empty(self, table: Table, sinks: Sequence[Sink], position: str, batch_id: int) -> None:
        """Removes what is older than a truncate. Behind the batch's rows: of those some may be older, too."""
        last, batch = self._memory(table.name).truncated, Batch(f"{self._checkpoint.id}/truncate", batch_id, "upsert")
        last.move_to(position)
        for sink in sinks:
            session = self._sessions.of(f"{table.name}/{sink.name}/truncate")
            stored = self._stored(sink, table, session)
            if stored is not None:
                self._tried(sink, table, partial(sink.write, table, last.removed(stored, table.key), batch))


@contextmanager
def _kept(frames: Mapping[TableMode, DataFrame], cache: bool) -> Iterator[Mapping[TableMode, DataFrame]]:  # noqa: FBT001
    """The frames; with ``cache`` they are read now, once, and counted."""
    cached = [frame.persist() for frame in frames.values()] if cache else []
    try:
        if cached:
            reduce(lambda a, b: a.unionByName(b), [f.agg({"*": "count"}) for f in cached]).collect()
        yield frames
    finally:
        for frame in cached:
            frame.unpersist()


def _good(frame: DataFrame, changes: Changes, epoch: int, *, op: bool) -> DataFrame:
    """The changes that are rows, with what sinks are given; ``op``: and OP, unless the rows have it already."""
    from pyspark.sql import functions as F

    own = [UNAVAILABLE, *([NEW_KEY] if NEW_KEY in frame.columns else [])] if UNAVAILABLE in frame.columns else []
    names = [*changes.event_columns, *own]
    columns = [F.col(quote_name(c)) for c in [*names, *([OP] if op and OPERATION not in names else [])]]
    positions = [
        in_epoch(F.col(c), epoch).alias(c) for c in [POSITION, *([KEY_CHANGE_POSITION] if NEW_KEY in own else [])]
    ]
    return frame.where(F.col(ERROR).isNull()).select(*columns, F.col(DELETED), *positions)


def _united(parts: list[Changes], table: str) -> Changes:
    if len({part.envelope for part in parts}) > 1:
        raise DataError(
            "some topics bring envelopes and some bring rows",
            where=f"table {table}",
            fix="add `- unwrap: {}` to `transforms:`",
        )
    if len({tuple(part.key_columns) for part in parts}) > 1:
        raise DataError(
            "its topics have different key columns", where=f"table {table}", fix="give them a `target:` each"
        )
    frame = reduce(lambda a, b: a.unionByName(b, allowMissingColumns=True), [part.frame for part in parts])
    return replace(parts[0], frame=frame)
