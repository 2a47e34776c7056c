"""Planner of the next range of several streams: shares, new streams, and streams that fail alone."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace

from headrace.sdk import ConfigError, DataError, HeadraceError, LoginError, Offset, RetriableError
from headrace_sources.kinesis.fetch_shares import FetchLimit, FetchShares
from headrace_sources.kinesis.kinesis_config import KinesisConfig
from headrace_sources.kinesis.kinesis_errors import error_of_json, error_to_json
from headrace_sources.kinesis.kinesis_stream import KinesisStream, NoSuchStreamError
from headrace_sources.kinesis.shard_positions import StreamPosition, from_offset, to_offset
from headrace_sources.kinesis.shard_reader import MAX_BYTES, Mark, Reading
from headrace_sources.kinesis.stream_planner import StreamPlan, StreamPlanner
from headrace_sources.kinesis.stream_selection import StreamSelection

_LOG = logging.getLogger(__name__)
#: Seconds after which a stream's part of a batch ends, if there are other streams.
STREAM_SECONDS = 10.0
#: Seconds before a busy stream is read again: the first pause, and the longest.
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 60.0


@dataclass(frozen=True)
class Found:
    """Result of reading several streams: marks and errors by stream."""

    marks: Mapping[str, Sequence[Mark]]
    errors: Mapping[str, HeadraceError] = field(default_factory=dict)


#: Reads the readings of streams.
ReadStreams = Callable[[Sequence[tuple[KinesisStream, Sequence[Reading]]]], Found]


@dataclass
class _Pause:
    """Pause of a stream whose last request failed."""

    error: RetriableError
    seconds: float
    ends_at: float


class Planner:
    """Planner of the ranges of one run."""

    def __init__(
        self,
        selection: StreamSelection,
        config: KinesisConfig,
        open_planner: Callable[[KinesisStream], StreamPlanner],
        read: ReadStreams,
        idle_seconds: float,
    ) -> None:
        """``read``: reads shards and returns their ends; ``idle_seconds``: between two reads of a stream without new records."""
        self._selection, self._config, self._open_planner, self._read = selection, config, open_planner, read
        self._idle_seconds = idle_seconds
        self._shares = FetchShares(FetchLimit(config.max_fetch_records_per_shard, MAX_BYTES))
        self._planners: dict[str, StreamPlanner] = {}
        #: Streams of the last search, and the time of the next one.
        self._names: list[str] = []
        self._search_at = 0.0
        self._is_bounded = False
        #: Stream → earliest time of its next read.
        self._due: dict[str, float] = {}
        self._pauses: dict[str, _Pause] = {}
        #: Streams that were deleted during the run.
        self._deleted: set[str] = set()

    def find_begin(self) -> Offset:
        """Return the first offset of streams without a checkpoint."""
        self._search()
        return to_offset({name: StreamPosition(self._plan_for(name).find_begin()) for name in self._names})

    def bound(self) -> None:
        """Restrict the run to records that have arrived by now."""
        self._search()
        if not self._names:
            raise self._selection.reject_nothing()
        self._is_bounded = True
        self._planners.clear()
        for name in self._names:
            with suppress(NoSuchStreamError):  # The next range tells whether it was deleted.
                self._plan_for(name)

    def find_end(self, start: Offset, limit: int | None) -> Offset:
        """Return the end of the range after ``start`` with at most ``limit`` records; ``start`` if there is no record."""
        before = from_offset(start)
        selected = [name for name in before if self._selection.matches(name)]
        if before and not selected:
            raise self._reject_checkpoint(before)
        if joined := self._join(before):
            # A range that is repeated needs the beginning of each shard, so it becomes an offset before a record is read.
            return to_offset({**before, **joined})
        round_ = _Round(before, selected, is_lenient=not self._config.fail_on_data_loss)
        plans: dict[str, StreamPlan] = {}
        for name in self._list_due(round_):
            with round_.isolate(name):
                plans[name] = self._plan_for(name).plan(before[name].shards)
        found = self._read_shares(plans, limit, is_alone=len(selected) == 1)
        round_.errors |= found.errors
        for name in plans.keys() - found.errors.keys():
            with round_.isolate(name):
                self._advance(round_, name, plans[name], found.marks.get(name, ()))
        self._note_pauses(round_)
        end = round_.finish()
        self._deleted |= before.keys() - end.keys()
        for name in round_.failed:  # The next plan of the stream lists its shards again.
            self._planners.pop(name, None)
        return to_offset(end)

    def _join(self, before: Mapping[str, StreamPosition]) -> dict[str, StreamPosition]:
        """Return the positions of streams that are not in the checkpoint yet."""
        if self._is_bounded or time.monotonic() < self._search_at:
            names = self._names if self._is_bounded else []
        else:
            names = self._search_again()
        return {name: position for name in names if name not in before and (position := self._begin_new(name))}

    def _begin_new(self, name: str) -> StreamPosition | None:
        """Return the position of a new stream; None if a stream of a pattern cannot be read, which is logged."""
        try:
            begin = self._plan_for(name).find_begin(is_new=True)
        except LoginError:
            raise
        except HeadraceError as error:
            is_optional = name in self._deleted or (self._selection.pattern is not None and not self._is_bounded)
            if not is_optional:
                raise
            _LOG.warning("the stream %s is not read yet: %s", name, error)
            return None
        _LOG.info("the stream %s joins", name)
        return StreamPosition(begin)

    def _search_again(self) -> list[str]:
        """Return the streams, or the known ones if AWS is busy."""
        try:
            self._search()
        except RetriableError as error:
            if not self._names:
                raise
            self._search_at = time.monotonic() + self._config.stream_poll_interval / 1000
            _LOG.warning("the search for new streams is repeated later: %s", error)
        return self._names

    def _search(self) -> None:
        self._names = self._selection.find()
        self._search_at = time.monotonic() + self._config.stream_poll_interval / 1000

    def _plan_for(self, name: str) -> StreamPlanner:
        """Return the planner of a stream."""
        if name not in self._planners:
            planner = self._open_planner(self._selection.open(name))
            if self._is_bounded:
                planner.bound()
            self._planners[name] = planner
        return self._planners[name]

    def _list_due(self, round_: _Round) -> list[str]:
        """Return the streams to read now."""
        now = time.monotonic()
        healthy = [name for name in round_.selected if name not in round_.failed]
        paused = {name for name in healthy if (pause := self._pauses.get(name)) and now < pause.ends_at}
        idle = set() if self._is_bounded else {name for name in healthy if now < self._due.get(name, 0.0)}
        return [name for name in healthy if name not in paused | idle]

    def _read_shares(self, plans: Mapping[str, StreamPlan], limit: int | None, *, is_alone: bool) -> Found:
        """Read the planned shards within their shares."""
        most = FetchLimit(1 << 62 if limit is None else limit, self._config.max_fetch_bytes)
        shares = self._shares.divide(
            most, {n: [one.shard for one in plan.readings] for n, plan in plans.items() if plan.readings}
        )
        if not shares:
            return Found({})
        seconds = None if is_alone else STREAM_SECONDS
        work = []
        for name, of in shares.items():
            limited = [
                replace(one, most_records=part.records, most_bytes=part.bytes, seconds=seconds)
                for one, part in zip(plans[name].readings, of, strict=True)
            ]
            work.append((self._plan_for(name).stream, limited))
        return self._read(work)

    def _advance(self, round_: _Round, name: str, plan: StreamPlan, marks: Sequence[Mark]) -> None:
        """Add the position of a stream after its part of the range."""
        before = round_.before[name].shards
        end = self._plan_for(name).advance(before, plan, marks)
        round_.end[name] = StreamPosition(end)
        for mark in marks:
            self._shares.note(name, mark.shard, FetchLimit(mark.records, mark.bytes), is_at_end=mark.is_at_end)
        is_idle = end == before and all(mark.is_at_end for mark in marks)
        self._due[name] = time.monotonic() + self._idle_seconds if is_idle else 0.0

    def _note_pauses(self, round_: _Round) -> None:
        """Pause the streams whose requests failed for now. Raise the error if the range cannot continue without them."""
        for name in round_.attempted - round_.errors.keys():
            self._pauses.pop(name, None)
        now = time.monotonic()
        for name, error in round_.errors.items():
            if isinstance(error, RetriableError):
                last = self._pauses.get(name)
                seconds = min(2 * last.seconds, _LONGEST_PAUSE) if last else _FIRST_PAUSE
                self._pauses[name] = _Pause(error, seconds, now + seconds)
                if len(round_.selected) > 1:
                    _LOG.warning("the stream %s is read again in %.0f s: %s", name, seconds, error)
        healthy = [name for name in round_.selected if name not in round_.failed]
        paused = [self._pauses[name] for name in healthy if name in self._pauses]
        if paused and not round_.has_changed() and (self._is_bounded or len(paused) == len(healthy)):
            for pause in paused:
                pause.ends_at = 0.0  # The caller pauses.
            raise paused[0].error

    def _reject_checkpoint(self, before: Mapping[str, StreamPosition]) -> ConfigError:
        message = f"the checkpoint belongs to the stream{'s' * (len(before) != 1)} {', '.join(before)}"
        return ConfigError(message, where=self._selection.where, fix="use a new checkpoint")


class _Round:
    """One range while it is planned: positions by stream, and the streams that fail alone."""

    def __init__(self, before: Mapping[str, StreamPosition], selected: Sequence[str], *, is_lenient: bool) -> None:
        """``is_lenient``: the options accept lost records."""
        self.before, self.selected, self._is_lenient = before, selected, is_lenient
        self.end = dict(before)
        self.errors: dict[str, HeadraceError] = {}
        self.attempted: set[str] = set()
        #: Streams that failed in an earlier range, and are not read until the options accept lost records.
        self.failed = {
            name: error_of_json(failure)
            for name in selected
            if (failure := before[name].failure) is not None and not is_lenient
        }

    @contextmanager
    def isolate(self, name: str) -> Iterator[None]:
        """Note the error of a stream if the other streams can continue."""
        self.attempted.add(name)
        try:
            yield
        except LoginError:
            raise
        except (DataError, NoSuchStreamError, RetriableError) as error:
            self.errors[name] = error

    def has_changed(self) -> bool:
        """Return whether the range has an end, or a new failure."""
        return self.end != dict(self.before) or any(not isinstance(e, RetriableError) for e in self.errors.values())

    def finish(self) -> dict[str, StreamPosition]:
        """Return the end of the range with the streams that failed. Raise the error if no stream is left."""
        for name, error in self.errors.items():
            if isinstance(error, DataError | NoSuchStreamError):
                self._fail(name, error)
            elif not isinstance(error, RetriableError):
                raise error
        if self.failed and len(self.failed) == len(self.selected):
            raise next(iter(self.failed.values()))
        return self.end

    def _fail(self, name: str, error: HeadraceError) -> None:
        """Set a stream aside: its tables get the error, and the others continue."""
        self.failed[name] = error
        if isinstance(error, NoSuchStreamError) and self._is_lenient:
            _LOG.warning("%s: the stream was deleted; the run continues without it", error.where)
            del self.end[name]
            return
        failure = error_to_json(error.to_lost() if isinstance(error, NoSuchStreamError) else error)
        if self._is_lenient and self.before[name].failure == failure:
            raise error  # A new list of shards did not help.
        self.end[name] = replace(self.end[name], failure=failure)
