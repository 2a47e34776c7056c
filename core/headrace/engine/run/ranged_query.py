"""Run of a ranged source, whose ranges the core plans, logs, reads and commits."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, cast

from headrace.checkpoint.offset_log import OffsetLog
from headrace.engine.plan.error_translation import translate
from headrace.engine.plan.retry import retry
from headrace.engine.run.current_plan import CurrentPlan
from headrace.engine.run.query import Query
from headrace.engine.run.run_options import RunOptions
from headrace.engine.run.run_state import StopRequestedError
from headrace.errors import HeadraceError, PluginError
from headrace.sdk.source import Offset, RangedSource

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: Minimum pause in seconds after a read without new records, as in Spark.
_MIN_PAUSE_SECONDS = 0.01

_REPORT = "report it to its author"
_Result = TypeVar("_Result")


class RangedQuery(Query):
    """Run of a ranged source."""

    def __init__(self, current: CurrentPlan, spark: SparkSession, options: RunOptions) -> None:
        super().__init__(current, spark, options)
        self._log = OffsetLog(self.checkpoint.range_log)
        self._session = self._sessions.of("ranged")

    def _open_source(self) -> None:
        assert isinstance(self._plan.source, RangedSource)
        self._plan.source.open(self._session)

    def _run_batches(self) -> None:
        source = self._plan.source
        assert isinstance(source, RangedSource)
        log, limit, pause = self._log, getattr(source.config, "limit", None), self._options.pause
        if pause is None:
            self._call_source(source.prepare_for_trigger_available_now)
        if log.last_applied is not None:  # A crash may have prevented the commit.
            self._commit(source, log.last_applied)
        while not self._state.is_stopping():
            self._check_spark()
            start = time.monotonic()
            batch = log.next(
                lambda: check_offset(source, "initial", self._call_source(source.initial)),
                lambda offset: check_next(source, offset, self._call_source(partial(source.latest, offset, limit))),
            )
            self._state.note_response()
            if batch is not None:
                span = batch.start, batch.end
                frame = self._call_source(partial(source.read, self._session, *span))
                self._run_batch(check_frame(source, frame), batch.id, span)
                log.commit(batch)
                self._commit(source, batch.end)
            else:
                self._note_login()
            if batch is None and pause is None:
                return
            if pause is not None:
                rest = pause - (time.monotonic() - start)
                self._sleep(max(rest, 0 if batch else _MIN_PAUSE_SECONDS), self._wake.wait)

    def _commit(self, source: RangedSource, end: Offset) -> None:
        """Commit an offset to the source, unless a table that was set aside must read its backlog again."""
        if not self._runner.backlogs.errors:
            self._call_source(partial(source.commit, end))

    def _call_source(self, call: Callable[[], _Result]) -> _Result:
        """Call the source, and repeat the call while it raises a RetriableError."""

        def translate_with_place(raised: Exception) -> HeadraceError:
            return translate(raised, self._plan).at(f"source {self._plan.source.name}")

        def wait(seconds: float) -> None:
            if self._wake.wait(seconds):
                raise StopRequestedError
            self._check_spark()

        return retry(call, translate_with_place, wait)


def check_frame(source: RangedSource, frame: Any) -> DataFrame:
    """Return the frame that a source read. PluginError if it is not a DataFrame."""
    from pyspark.sql import DataFrame

    if not isinstance(frame, DataFrame):
        found = type(frame).__name__
        raise PluginError(f"read returns {found} instead of a DataFrame", where=f"source {source.name}", fix=_REPORT)
    return frame


def check_offset(source: RangedSource, method: str, offset: Any) -> Offset:
    """Return an offset of a source. PluginError if it is invalid."""
    try:
        json.dumps(offset)
        is_offset = isinstance(offset, dict)
    except (TypeError, ValueError):
        is_offset = False
    if not is_offset:
        raise PluginError(
            f"{method} returns an offset that is not a JSON object, a dict with JSON values: {offset!r:.200}",
            where=f"source {source.name}",
            fix=_REPORT,
        )
    return cast("Offset", offset)


def check_next(source: RangedSource, start: Offset, offset: Any) -> Offset:
    """Return the end of the next batch. PluginError if its numbers decreased and nothing else changed."""
    end = check_offset(source, "latest", offset)
    old, new = dict(_list_leaves(start)), dict(_list_leaves(end))
    changed = [(old[path], new[path]) for path in old.keys() & new.keys() if old[path] != new[path]]
    if changed and old.keys() == new.keys() and all(_is_less(after, before) for before, after in changed):
        raise PluginError(
            f"its offsets decrease: latest returns {json.dumps(end)} after {json.dumps(start)}",
            where=f"source {source.name}",
            fix="report it to its author; if the data was recreated, use a new checkpoint",
        )
    return end


def _list_leaves(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Return path → value of all leaves within mappings."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _list_leaves(inner, (*path, str(name)))
    else:
        yield path, value


def _is_less(first: Any, second: Any) -> bool:
    return isinstance(first, int | float) and isinstance(second, int | float) and first < second
