"""Handling of SIGINT and SIGTERM: they end the program; an active run ends after its batch, or immediately at the second signal."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Stop:
    """Request to stop a run. ``requested_by``: the first signal or event that requested it, else None."""

    def __init__(self) -> None:
        self.requested_by: str | None = None

    def request(self, cause: str) -> None:
        self.requested_by = self.requested_by or cause

    @contextmanager
    def on_signals(self) -> Iterator[None]:
        """Handle signals inside the block: the first one requests the stop, the second one raises KeyboardInterrupt."""
        before = {number: signal.signal(number, self._count_signal) for number in _SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _count_signal(self, number: int, _: FrameType | None) -> None:
        if self.requested_by is not None:
            raise KeyboardInterrupt
        self.request(signal.Signals(number).name)


class _Interruptible:
    """Signal handling of the program, also while it waits for a JVM or starts one.

    The JVM ignores SIGTERM, because ``timeout`` and systemd send it to all processes and the batch must be finished.
    The JVM ends when this process does.
    """

    def __init__(self) -> None:
        self.interrupted = False
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._reader, False)

    def listen(self) -> None:
        for number in _SIGNALS:
            signal.signal(number, self._interrupt)

    def _interrupt(self, *_: object) -> None:
        self.interrupted = True
        raise KeyboardInterrupt

    def in_child(self) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        os.write(self._writer, b"%d\n" % os.getpid())

    def kill_launch(self) -> None:
        """Stop a JVM that is still starting: without its parent it would print twenty lines. A running JVM ends quietly."""
        pyspark = sys.modules.get("pyspark")
        if pyspark is None or pyspark.SparkContext._gateway is not None:  # noqa: SLF001 - there is no public API
            return
        with suppress(BlockingIOError, ProcessLookupError):
            for pid in os.read(self._reader, 1000).split():
                os.kill(int(pid), signal.SIGKILL)

    def close(self) -> None:
        os.close(self._reader)
        os.close(self._writer)


_current: _Interruptible | None = None


@contextmanager
def interruptible() -> Iterator[None]:
    """Raise KeyboardInterrupt for SIGINT and SIGTERM inside the block, also when py4j converts it."""
    global _current  # noqa: PLW0603 - a function that runs after a fork takes no arguments
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in _SIGNALS}
    current = _current = _Interruptible()
    current.listen()
    try:
        yield
    except Exception:
        if current.interrupted:
            raise KeyboardInterrupt from None
        raise
    finally:
        if current.interrupted:
            current.kill_launch()
        _current = None
        current.close()
        for number, handler in before.items():
            signal.signal(number, handler)


def listen_again() -> None:
    """Install the handlers again: creating a SparkContext replaces the one for SIGINT."""
    if _current is not None:
        _current.listen()


def _after_fork_in_child() -> None:
    if _current is not None:
        _current.in_child()


# subprocess runs it before PySpark's own preexec_fn, and only for processes that have one.
os.register_at_fork(after_in_child=_after_fork_in_child)
