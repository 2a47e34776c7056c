"""One table of one batch: its changes counted, folded to one a key, written into every sink; what is wrong set aside."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from headrace.contracts.changes import (
    COMMITTED,
    DELETED,
    ERROR,
    POSITION,
    PREFIX,
    TRUNCATED,
    UNCHANGED,
    Changes,
    quoted,
)
from headrace.contracts.events import Events
from headrace.contracts.format import UnknownSchemaError
from headrace.contracts.position import in_epoch
from headrace.contracts.sink import Batch, Mode, Sink, Table, Written
from headrace.engine import dead_letters
from headrace.engine.checkpoint import Checkpoint
from headrace.engine.plan import Plan
from headrace.engine.progress import TableProgress
from headrace.engine.routing import Route
from headrace.engine.trouble import explained
from headrace.errors import ConfigError, DataError, RetriableError
from headrace.spark.jobs import tagged
from headrace.spark.sessions import Sessions, moved
from headrace_history import unchanged
from headrace_history.deleted import DeletedKeys
from headrace_history.fold import newest_per_key
from headrace_history.truncated import Truncated

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

#: Tries of one table in one batch when its sink says that it is worth one, and the seconds before the next.
TRIES, PAUSE = 4, 1.0


@dataclass(frozen=True)
class Target:
    """A table with what a batch has for it."""

    name: str
    sources: tuple[tuple[Events, Route], ...]


class TableWriter:
    """Applies a table's part of a batch; the same part again changes nothing."""

    def __init__(self, plan: Plan, checkpoint: Checkpoint, sessions: Sessions) -> None:
        self._plan, self._checkpoint, self._sessions = plan, checkpoint, sessions
        self._deleted: dict[str, DeletedKeys] = {}
        self._truncated: dict[str, Truncated] = {}
        #: Table → whether some of its changes leave values out, as far as it was seen.
        self._partial: dict[str, bool] = {}

    def __call__(self, target: Target, batch_id: int) -> list[TableProgress]:
        """What came of it, per sink."""
        if target.name not in self._partial:  # where it was so before, a change that tells all may be late
            may_be = any(self._plan.dialect(events).unchanged(events.schema) for events, _ in target.sources)
            self._partial[target.name] = may_be and any(map(partial(self._was_partial, target), self._plan.sinks))
        try:
            return self._apply(target, batch_id)
        except Exception as error:
            if self._partial[target.name] or not unchanged.was_met(error):
                raise
            self._partial[target.name] = True
            return self._apply(target, batch_id)

    def _apply(self, target: Target, batch_id: int) -> list[TableProgress]:
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
        arrived = _Count(
            rows_in=F.count(F.lit(1)),
            errors=F.count(F.col(ERROR)),
            newest_ms=F.max(F.when(good, F.col(COMMITTED))),
            oldest_ms=F.min(F.when(good, F.col(COMMITTED))),
            # Each aggregate costs every record: of what is merged, deletes are counted when one row is left of each key.
            **({"deletes": F.count_if(good & F.col(DELETED))} if "append" in modes.values() else {}),
        )
        rows = _good(arrived.on(changes.frame), changes, self._checkpoint.epochs.of(batch_id))
        left_out = unchanged.columns_of(rows)
        appended = rows
        if left_out:
            takes_columns = all(s.capabilities.schema_evolution for s, mode in modes.items() if mode == "append")
            appended = unchanged.named(rows) if takes_columns else rows.drop(UNCHANGED)
        frames: dict[Mode, DataFrame] = {"append": appended}
        counts: dict[Mode, _Count] = {"append": arrived}  # all that is good is written, and that is counted already
        deleted = self._deleted_keys(table) if self._plan.delete_retention and "upsert" in modes.values() else None
        if "upsert" in modes.values():
            rows = self._last_truncate(table).without_older(rows)
            counts["upsert"] = _Count(rows=F.count(F.lit(1)), deletes=F.count_if(F.col(DELETED)))
            newest = counts["upsert"].on((unchanged.folded if left_out else newest_per_key)(rows, table.key))
            frames["upsert"] = deleted.without_late(newest, table.key) if deleted else newest
        cache = len(modes) > 1 or not self._plan.sinks[0].capabilities.single_pass or bool(left_out)
        with _kept({mode: frames[mode] for mode in modes.values()}, cache) as kept:
            written = self._write_all(table, modes, kept, batch_id, left_out)
            readable = time.time()
            unread = not cache and all(result.skipped for result in written)  # so nothing was counted
            # Each is asked once, however many read it: one that is not delivered costs its whole wait.
            found = {mode: {} if unread else count.result() for mode, count in counts.items()}
            if deleted and found["upsert"].get("deletes") != 0:
                deleted.remember(kept["upsert"], table.key, batch_id)
        seen = found["append"]
        if "rows_in" in seen:
            seen["good"] = seen["rows_in"] - seen["errors"]
        if seen.get("errors") != 0:
            emptied = [s for s, mode in modes.items() if mode == "upsert"] if self._plan.removes_rows else []
            seen["errors"] = self._no_rows(target, table, emptied, batch_id)
        return [
            _progress(target, sink, result, seen, found[mode], readable, time.monotonic() - clock)
            for (sink, mode), result in zip(modes.items(), written, strict=True)
        ]

    def _changes(self, target: Target, *, whole: bool = False) -> Changes:
        session = self._session(target)
        partial = self._partial[target.name]
        parts = [
            self._plan.changes(session, events, route, whole=whole, partial=partial) for events, route in target.sources
        ]
        return _united(parts, target.name)

    def _session(self, target: Target) -> SparkSession:
        """The one in which the first sink writes the table."""
        return self._sessions.of(f"{target.name}/{self._plan.sinks[0].name}/0")

    def _last_truncate(self, table: Table) -> Truncated:
        if table.name not in self._truncated:
            folder = self._checkpoint.folder.folder("truncated")
            self._truncated[table.name] = Truncated(folder, quote(table.name, safe=""))
        return self._truncated[table.name]

    def _deleted_keys(self, table: Table) -> DeletedKeys:
        if table.name not in self._deleted:
            folder = self._checkpoint.folder.folder(f"deleted/{quote(table.name, safe='')}")
            self._deleted[table.name] = DeletedKeys(folder, self._plan.delete_retention)
        return self._deleted[table.name]

    def _write_all(
        self,
        table: Table,
        modes: Mapping[Sink, Mode],
        frames: Mapping[Mode, DataFrame],
        batch_id: int,
        left_out: Sequence[str],
    ) -> list[Written]:
        with ThreadPoolExecutor(max_workers=len(modes), thread_name_prefix="headrace-sink") as pool:
            batches = {mode: Batch(self._checkpoint.id, batch_id, mode) for mode in modes.values()}
            jobs = [
                pool.submit(self._write, sink, number, table, frames[mode], batches[mode], left_out)
                for number, (sink, mode) in enumerate(modes.items())
            ]
            return [job.result() for job in jobs]

    def _write(
        self, sink: Sink, number: int, table: Table, rows: DataFrame, batch: Batch, left_out: Sequence[str]
    ) -> Written:
        session = self._sessions.of(f"{table.name}/{sink.name}/{number}")
        mine = rows if number == 0 else moved(rows, session)

        def write() -> Written:
            if not left_out or batch.mode == "append":
                return sink.write(table, mine, batch)
            with unchanged.merged(mine, self._stored(sink, table, session), table.key, left_out) as whole:
                return sink.write(table, whole, batch)

        with tagged(session, table.name):
            return self._tried(sink, table, write)

    def _tried(self, sink: Sink, table: Table, write: Callable[[], Written]) -> Written:
        """What comes of a write, which is tried again when its sink says that it is worth it."""
        for attempt in range(1, TRIES + 1):
            try:
                return write()
            except Exception as raised:
                error = explained(raised, self._plan, sink)
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
        return frame.select(*[frame[quoted(c)] for c in frame.columns if not hidden or not c.startswith(hidden)])

    def _was_partial(self, target: Target, sink: Sink) -> bool:
        """Whether a sink's table has had changes that left values out."""
        stored = self._stored(sink, Table(target.name), self._session(target)) if sink.capabilities.upsert else None
        return stored is not None and unchanged.ORIGIN in stored.columns

    def _no_rows(self, target: Target, table: Table, upserts: Sequence[Sink], batch_id: int) -> int:
        """Sees to the events of a batch that are no rows: empties the table, keeps dead letters. How many of the latter."""
        from pyspark.sql import functions as F

        changes = self._changes(target, whole=True)
        position = in_epoch(F.col(POSITION), self._checkpoint.epochs.of(batch_id))
        truncate = F.col(ERROR) == TRUNCATED
        emptied = F.max(F.when(truncate, position)) if upserts else F.lit(None)
        found = changes.frame.where(F.col(ERROR).isNotNull()).agg(F.count("*"), F.count_if(truncate), emptied).first()
        assert found is not None, "an aggregate has a row"
        letters, truncates, newest = found
        if newest is not None:
            self._empty(table, upserts, newest, batch_id)
            letters -= truncates
            changes = replace(changes, frame=changes.frame.withColumn(ERROR, F.when(~truncate, F.col(ERROR))))
        if letters:
            folder = self._checkpoint.dead_letters
            dead_letters.write(changes, folder, batch=batch_id, table=target.name, hide=self._plan.hides)
        return int(letters)

    def _empty(self, table: Table, sinks: Sequence[Sink], position: str, batch_id: int) -> None:
        """Removes what is older than a truncate. Behind the batch's rows: of those some may be older, too."""
        last, batch = self._last_truncate(table), Batch(f"{self._checkpoint.id}/truncate", batch_id, "upsert")
        last.move_to(position)
        for sink in sinks:
            session = self._sessions.of(f"{table.name}/{sink.name}/truncate")
            stored = self._stored(sink, table, session)
            if stored is not None:
                self._tried(sink, table, partial(sink.write, table, last.removed(stored, table.key), batch))


@contextmanager
def _kept(frames: Mapping[Mode, DataFrame], cache: bool) -> Iterator[Mapping[Mode, DataFrame]]:  # noqa: FBT001
    """The frames; with ``cache`` they are read now, once, and counted."""
    cached = [frame.persist() for frame in frames.values()] if cache else []
    try:
        if cached:
            reduce(lambda a, b: a.unionByName(b), [f.agg({"*": "count"}) for f in cached]).collect()
        yield frames
    finally:
        for frame in cached:
            frame.unpersist()


def _good(frame: DataFrame, changes: Changes, epoch: int) -> DataFrame:
    """The changes that are rows, with what sinks are given."""
    from pyspark.sql import functions as F

    columns = [F.col(quoted(c)) for c in [*changes.event_columns, *({UNCHANGED} & set(frame.columns))]]
    position = in_epoch(F.col(POSITION), epoch).alias(POSITION)
    return frame.where(F.col(ERROR).isNull()).select(*columns, F.col(DELETED), position)


def _progress(
    target: Target,
    sink: Sink,
    result: Written,
    seen: dict[str, Any],
    kept: dict[str, Any],
    readable: float,
    seconds: float,
) -> TableProgress:
    """``readable``: when the rows could be read, in seconds since 1970; ``seconds``: what the table took."""
    now = int(readable * 1000)
    newest, oldest = (None if (ms := seen.get(name)) is None else now - ms for name in ("newest_ms", "oldest_ms"))
    rows = kept.get("good", kept.get("rows"))
    deletes = kept.get("deletes", 0)
    superseded = seen["good"] - rows if "good" in seen and rows is not None else None
    applied, late = rows, None
    if result.skipped:
        applied = 0
    elif result.upserted is not None and rows is not None:
        applied, late = result.upserted + deletes, max(0, rows - deletes - result.upserted)
    return TableProgress(
        table=target.name,
        sink=sink.name,
        rows_in=seen.get("rows_in"),
        applied=applied,
        late=late,
        superseded=superseded,
        dead_letters=seen.get("errors", 0),
        latency_ms=newest,
        latency_max_ms=oldest,
        bytes=result.bytes,
        version=result.version,
        seconds=round(seconds, 3),
        skipped=result.skipped,
    )


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


class _Count:
    """Aggregates over a DataFrame, taken while something else reads it."""

    def __init__(self, **aggregates: Column) -> None:
        from pyspark.sql import Observation

        self._observation, self._aggregates = Observation(), aggregates

    def on(self, frame: DataFrame) -> DataFrame:
        return frame.observe(self._observation, *[column.alias(name) for name, column in self._aggregates.items()])

    def result(self) -> dict[str, Any]:
        """The aggregates, once the DataFrame has been read; empty when Spark does not deliver them."""
        found: dict[str, Any] = {}
        # The listener that brings them runs behind the action: wait for it, but not for ever.
        waiter = threading.Thread(target=lambda: found.update(self._observation.get), daemon=True)
        waiter.start()
        waiter.join(timeout=10)
        return found
