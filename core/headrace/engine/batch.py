"""One batch: route → decode → transform → one change per key → write all tables side by side → dead letters → mark."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import reduce
from typing import TYPE_CHECKING, Any

from headrace.contracts.changes import COMMITTED, DELETED, ERROR, POSITION, Changes, quoted
from headrace.contracts.events import Events
from headrace.contracts.format import UnknownSchemaError
from headrace.contracts.sink import Batch, Sink, Table, Written
from headrace.contracts.source import SourceContext
from headrace.engine import dead_letters
from headrace.engine.checkpoint import Checkpoint
from headrace.engine.fold import newest_per_key
from headrace.engine.plan import Plan, SeenColumns
from headrace.engine.progress import BatchProgress, TableProgress
from headrace.engine.routing import Route
from headrace.engine.trouble import explained
from headrace.errors import DataError, RetriableError
from headrace.spark.sessions import Sessions, moved

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

#: Writes of one batch that run at the same time.
PARALLEL = 8
#: Tries of one table in one batch when its sink says that it is worth one, and the seconds before the next.
TRIES, PAUSE = 4, 1.0

#: Plans of one batch, each with the writer schemas that the one before met and did not know.
REPLANS = 20

Listener = Callable[[BatchProgress], None]
_Outcome = tuple[list[TableProgress], Exception | None]


@dataclass(frozen=True)
class _Target:
    """A table with what this batch has for it."""

    name: str
    sources: tuple[tuple[Events, Route], ...]


class BatchRunner:
    """Applies batches. The same batch id always brings the same records; applying it again changes nothing."""

    def __init__(
        self, plan: Plan, checkpoint: Checkpoint, sessions: Sessions, listener: Listener, *, names_checked: bool
    ) -> None:
        self._plan, self._checkpoint, self._sessions, self._listener = plan, checkpoint, sessions, listener
        self._context = SourceContext(sessions.of("batch"), checkpoint.schemas, stream=checkpoint.stream)
        self._names_checked = names_checked

    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        """Applies one batch; raises what stops the run, after every table had its turn."""
        started, clock = datetime.now(UTC), time.monotonic()
        targets, unrouted, notices = self._planned(frame, batch_id)
        outcomes = self._outcomes(targets, batch_id)
        for _ in range(REPLANS):
            again = {name for name, (_, error) in outcomes.items() if isinstance(error, UnknownSchemaError)}
            if not again:
                break
            targets, *_ = self._planned(frame, batch_id)
            outcomes.update(self._outcomes([target for target in targets if target.name in again], batch_id))
        lags = self._lags(targets, batch_id)
        tables = tuple(replace(p, lag=lags.get(p.table)) for progresses, _ in outcomes.values() for p in progresses)
        progress = BatchProgress(
            self._plan.name,
            batch_id,
            started.isoformat(timespec="milliseconds"),
            round(time.monotonic() - clock, 3),
            tables,
            unrouted,
            notices,
        )
        self._checkpoint.progress.add(progress)
        self._listener(progress)
        errors = [error for _, error in outcomes.values() if error]
        if errors:
            raise errors[0]

    def _planned(self, frame: DataFrame, batch_id: int) -> tuple[list[_Target], tuple[str, ...], dict[str, str]]:
        try:
            found = self._plan.events(replace(self._context, batch=batch_id), frame)
            notices = {events.topic: about for events in found if (about := self._plan.about(events))}
            targets, unrouted = self._targets([events for events in found if events.topic not in notices])
            self._check_names(targets, batch_id)
        except Exception as error:
            raise explained(error, self._plan) from error
        return targets, unrouted, notices

    def _outcomes(self, targets: list[_Target], batch_id: int) -> dict[str, _Outcome]:
        """What came of each table, all of them written side by side."""
        with ThreadPoolExecutor(PARALLEL, thread_name_prefix="headrace-table") as pool:
            found = pool.map(lambda target: self._attempt(target, batch_id), targets)
            return {target.name: outcome for target, outcome in zip(targets, found, strict=True)}

    def _lags(self, targets: list[_Target], batch_id: int) -> dict[str, int]:
        """Table → records that wait for it. Not worth a failure: a source that is away says so when it is read."""
        try:
            topics = self._plan.source.lag(replace(self._context, batch=batch_id))
        except Exception:  # noqa: BLE001
            return {}
        found = {t.name: [topics.get(events.topic) for events, _ in t.sources] for t in targets}
        return {name: sum(lag or 0 for lag in lags) for name, lags in found.items() if None not in lags}

    def _targets(self, events: list[Events]) -> tuple[list[_Target], tuple[str, ...]]:
        by_table: dict[str, list[tuple[Events, Route]]] = {}
        unrouted = []
        for item in events:
            route = self._plan.routes.of(item.topic)
            if route is None:
                unrouted.append(item.topic)
            else:
                by_table.setdefault(route.table, []).append((item, route))
        return [_Target(name, tuple(sources)) for name, sources in by_table.items()], tuple(unrouted)

    def _attempt(self, target: _Target, batch_id: int) -> _Outcome:
        clock = time.monotonic()
        try:
            return self._apply(target, batch_id), None
        except Exception as raised:  # noqa: BLE001 - the other tables go on; the batch raises it at its end
            error = explained(raised, self._plan)
            error.where = error.where or f"table {target.name}"
            text = self._plan.redact(str(error))
            seconds = round(time.monotonic() - clock, 3)
            failed = [
                TableProgress(target.name, sink.name, None, None, None, 0, None, None, None, seconds, error=text)
                for sink in self._plan.sinks
            ]
            return failed, error

    def _apply(self, target: _Target, batch_id: int) -> list[TableProgress]:
        from pyspark.sql import functions as F

        clock = time.monotonic()
        session = self._sessions.of(f"{target.name}/{self._plan.sinks[0].name}/0")
        parts = [self._plan.changes(session, events, route) for events, route in target.sources]
        changes = _united(parts, target.name)
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
        counted = replace(changes, frame=arrived.on(changes.frame))
        rows = {mode: self._rows(counted, table, mode) for mode in set(modes.values())}
        kept = {"append": arrived}  # all that is good is written, and that is counted already
        if "upsert" in rows:
            kept["upsert"] = _Count(rows=F.count(F.lit(1)), deletes=F.count_if(F.col(DELETED)))
            rows["upsert"] = kept["upsert"].on(rows["upsert"])
        cache = len(modes) > 1 or not self._plan.sinks[0].capabilities.single_pass
        cached = [frame.persist() for frame in rows.values()] if cache else []
        try:
            if cache:  # fills the cache and the counts
                reduce(lambda a, b: a.unionByName(b), [f.agg({"*": "count"}) for f in rows.values()]).collect()
            with ThreadPoolExecutor(max_workers=len(modes), thread_name_prefix="headrace-sink") as pool:
                jobs = [
                    pool.submit(
                        self._write, sink, number, table, rows[mode], Batch(self._checkpoint.id, batch_id, mode)
                    )
                    for number, (sink, mode) in enumerate(modes.items())
                ]
                written = [job.result() for job in jobs]
        finally:
            for frame in cached:
                frame.unpersist()
        unread = not cache and all(result.skipped for result in written)  # so nothing was counted
        # Each is asked once, however many read it: one that is not delivered costs its whole wait.
        counts = {mode: {} if unread else count.result() for mode, count in kept.items()}
        if (seen := counts["append"]).get("errors") != 0:
            whole = _united(
                [self._plan.changes(session, events, route, whole=True) for events, route in target.sources],
                target.name,
            )
            if "errors" not in seen:
                seen["errors"] = whole.frame.where(F.col(ERROR).isNotNull()).count()
            if seen["errors"]:
                dead_letters.write(
                    whole, self._checkpoint.dead_letters, batch=batch_id, table=target.name, hide=self._plan.hides
                )
        return [
            self._progress(target, sink, result, seen, counts[mode], clock)
            for (sink, mode), result in zip(modes.items(), written, strict=True)
        ]

    @staticmethod
    def _progress(
        target: _Target, sink: Sink, result: Written, seen: dict[str, Any], kept: dict[str, Any], clock: float
    ) -> TableProgress:
        now = int(time.time() * 1000)
        newest, oldest = (None if (ms := seen.get(name)) is None else now - ms for name in ("newest_ms", "oldest_ms"))
        rows = kept["rows_in"] - kept["errors"] if "rows_in" in kept else kept.get("rows")
        deletes = kept.get("deletes", 0)
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
            dead_letters=seen.get("errors", 0),
            latency_ms=newest,
            latency_max_ms=oldest,
            bytes=result.bytes,
            version=result.version,
            seconds=round(time.monotonic() - clock, 3),
            skipped=result.skipped,
        )

    def _rows(self, changes: Changes, table: Table, mode: str) -> DataFrame:
        from pyspark.sql import functions as F

        good = changes.frame.where(F.col(ERROR).isNull())
        rows = good.select(*[F.col(quoted(c)) for c in changes.event_columns], F.col(DELETED), F.col(POSITION))
        return newest_per_key(rows, table.key) if mode == "upsert" else rows

    def _write(self, sink: Sink, number: int, table: Table, rows: DataFrame, batch: Batch) -> Written:
        session = self._sessions.of(f"{table.name}/{sink.name}/{number}")
        mine = rows if number == 0 else moved(rows, session)
        for attempt in range(1, TRIES + 1):
            try:
                return sink.write(table, mine, batch)
            except Exception as raised:
                error = explained(raised, self._plan, sink)
                error.where = error.where or f"table {table.name}, sink {sink.name}"
                if attempt == TRIES or not isinstance(error, RetriableError) or isinstance(error, UnknownSchemaError):
                    raise error from raised
                time.sleep(PAUSE * 2 ** (attempt - 1))
        raise AssertionError("unreachable")

    def _check_names(self, targets: list[_Target], batch_id: int) -> None:
        """On the very first batch: a source that could not show its columns before the start shows them here."""
        if self._names_checked or batch_id > 0 or not targets:
            return
        seen: SeenColumns = {}
        for target in targets:
            for events, route in target.sources:
                self._plan.changes(self._context.spark, events, route, seen=seen)
        self._plan.check_names(seen)
        self._names_checked = True


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
