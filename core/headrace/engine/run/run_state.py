"""State that the threads of one run share."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable
from enum import Enum

from headrace.errors import HeadraceError


class StopRequestedError(Exception):
    """Keeps a batch from starting after stop(): the source offers it again in the next run."""


class Phase(Enum):
    """Phase of a run."""

    STARTING = "starting"
    WAITING = "waiting"
    APPLYING = "applying"
    RETRYING = "retrying"
    STOPPING = "stopping"


class RunState:
    """State of a run. Several threads write it under one lock."""

    def __init__(self, redact: Callable[[str], str] = str) -> None:
        """``redact``: removes secrets from error messages."""
        self._redact = redact
        self._lock = threading.Lock()
        self._stop_requested = threading.Event()
        self._phase = Phase.STARTING
        self._batch: int | None = None
        self._thread: int | None = None
        self._error: HeadraceError | None = None
        self._source_error: HeadraceError | None = None
        self._sink_error: HeadraceError | None = None
        self._healthy: set[str] = set()
        self._answered = time.monotonic()

    # The whole run.

    @property
    def phase(self) -> Phase:
        """The current phase."""
        return Phase.STOPPING if self._stop_requested.is_set() else self._phase

    @property
    def batch(self) -> int | None:
        """The batch in progress, or the last one."""
        return self._batch

    @property
    def is_applying(self) -> bool:
        """Whether a batch is in progress."""
        return self._thread is not None

    @property
    def is_own_thread(self) -> bool:
        """Whether the caller is the thread that runs the batch."""
        return self._thread == threading.get_ident()

    @property
    def error(self) -> HeadraceError | None:
        """The error that ends the run."""
        return self._error

    @property
    def source_error(self) -> HeadraceError | None:
        """The error of the source while it is retried."""
        return self._source_error

    @property
    def sink_error(self) -> HeadraceError | None:
        """The error of a sink between batches while it is retried."""
        return self._sink_error

    @property
    def has_responded(self) -> bool:
        """Whether the source has responded in this run."""
        return self._phase is not Phase.STARTING

    @property
    def answer_age(self) -> float:
        """Seconds since the last answer of the source."""
        return time.monotonic() - self._answered

    def note_answer(self) -> None:
        """Record that the source answers now, without a change of phase."""
        self._answered = time.monotonic()

    def request_stop(self) -> None:
        """Request the end of the run: no other batch starts."""
        self._stop_requested.set()

    def is_stopping(self) -> bool:
        """Return whether a stop was requested."""
        return self._stop_requested.is_set()

    def wait_for_stop(self, seconds: float) -> bool:
        """Wait at most ``seconds`` for a stop request; return whether there is one."""
        return self._stop_requested.wait(seconds)

    def begin_batch(self, batch: int) -> None:
        """Record that the calling thread runs a batch."""
        with self._lock:
            self._batch, self._thread = batch, threading.get_ident()
            if self._phase is not Phase.STARTING:
                self._phase = Phase.APPLYING

    def end_batch(self) -> None:
        """Record that no batch is in progress."""
        with self._lock:
            self._thread = None

    def note_response(self) -> None:
        """Record that the source responded."""
        with self._lock:
            self._phase, self._source_error = Phase.WAITING, None
            self._answered = time.monotonic()

    def note_source_error(self, error: HeadraceError) -> None:
        """Record an error of the source, which is retried."""
        error.redact(self._redact)
        with self._lock:
            self._phase, self._error, self._source_error = Phase.RETRYING, None, error

    def note_sink_error(self, error: HeadraceError | None) -> None:
        """Record an error of a sink between batches, which is retried; None after a success."""
        self._sink_error = error.redact(self._redact) if error else None

    def fail(self, error: HeadraceError) -> None:
        """Record the error that ends the run, unless one is recorded already."""
        error.redact(self._redact)
        with self._lock:
            self._error = self._error or error

    # The tables of the run.

    def note_outcomes(self, applied: Iterable[str], unhealthy: Collection[str]) -> None:
        """Record the tables of a batch, and the tables that failed or are set aside."""
        with self._lock:
            self._healthy = (self._healthy | set(applied)) - set(unhealthy)

    def note_caught_up(self, table: str) -> None:
        """Record that a table has caught up."""
        with self._lock:
            self._healthy.add(table)

    @property
    def has_healthy_tables(self) -> bool:
        """Whether the most recent write of at least one table succeeded."""
        with self._lock:
            return bool(self._healthy)
