"""What the threads of one run tell each other."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable
from enum import Enum

from headrace.errors import HeadraceError


class Phase(Enum):
    """What a run does."""

    STARTING = "starting"
    WAITING = "waiting"
    APPLYING = "applying"
    RETRYING = "retrying"
    STOPPING = "stopping"


class RunState:
    """The state of a run that several threads write, behind one lock."""

    def __init__(self, redact: Callable[[str], str] = str) -> None:
        """``redact``: takes secrets out of the texts of errors."""
        self._redact = redact
        self._lock = threading.Lock()
        self._stop_asked = threading.Event()
        self._phase = Phase.STARTING
        self._batch: int | None = None
        self._thread: int | None = None
        self._error: HeadraceError | None = None
        self._source_error: HeadraceError | None = None
        self._healthy: set[str] = set()

    # The run as a whole.

    @property
    def phase(self) -> Phase:
        return Phase.STOPPING if self._stop_asked.is_set() else self._phase

    @property
    def batch(self) -> int | None:
        """The batch that is under way, or was last."""
        return self._batch

    @property
    def is_applying(self) -> bool:
        return self._thread is not None

    @property
    def is_own_thread(self) -> bool:
        """Whether the caller is the thread that applies a batch."""
        return self._thread == threading.get_ident()

    @property
    def error(self) -> HeadraceError | None:
        """Why the run ends."""
        return self._error

    @property
    def source_error(self) -> HeadraceError | None:
        """Why the source does not answer now."""
        return self._source_error

    @property
    def has_answered(self) -> bool:
        """Whether the source ever answered in this run."""
        return self._phase is not Phase.STARTING

    def ask_stop(self) -> None:
        """No batch begins from now on."""
        self._stop_asked.set()

    def is_stopping(self) -> bool:
        return self._stop_asked.is_set()

    def wait_for_stop(self, seconds: float) -> bool:
        """Returns after so many seconds, or when the run is to stop: whether it is."""
        return self._stop_asked.wait(seconds)

    def begin_batch(self, batch: int) -> None:
        """Notes that the calling thread applies a batch."""
        with self._lock:
            self._batch, self._thread = batch, threading.get_ident()
            if self._phase is not Phase.STARTING:
                self._phase = Phase.APPLYING

    def end_batch(self) -> None:
        with self._lock:
            self._thread = None

    def note_answer(self) -> None:
        """The source answered."""
        with self._lock:
            self._phase, self._source_error = Phase.WAITING, None

    def note_source_error(self, error: HeadraceError) -> None:
        """The source does not answer, and is asked again."""
        error.redact(self._redact)
        with self._lock:
            self._phase, self._error, self._source_error = Phase.RETRYING, None, error

    def fail(self, error: HeadraceError) -> None:
        """Notes why the run ends; what was noted first holds."""
        error.redact(self._redact)
        with self._lock:
            self._error = self._error or error

    # Its tables.

    def note_outcomes(self, applied: Iterable[str], unhealthy: Collection[str]) -> None:
        """Tables that had something in a batch, and those that failed or are set aside."""
        with self._lock:
            self._healthy = (self._healthy | set(applied)) - set(unhealthy)

    def note_caught_up(self, table: str) -> None:
        """A table that was set aside is as the others again."""
        with self._lock:
            self._healthy.add(table)

    @property
    def has_healthy_tables(self) -> bool:
        """Whether any table was written when it last had something, as far as it is known."""
        with self._lock:
            return bool(self._healthy)
