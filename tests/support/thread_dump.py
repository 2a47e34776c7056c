"""Thread dump of the JVM of a test that takes too long: it shows the call that does not end."""

from __future__ import annotations

import os
import signal
import sys
import time

import pytest

#: Begin of pytest-timeout's message.
_TIMEOUT = "Timeout (>"
#: Seconds in which a JVM writes its threads to its output, which is the output of the tests.
_SECONDS = 5.0


def dump_threads_after_timeout(call: pytest.CallInfo[None]) -> None:
    """Print the threads of the JVM of this process if the call has reached the time limit of a test."""
    if call.excinfo is None or not _is_timeout(call.excinfo.value) or "pyspark" not in sys.modules:
        return
    from pyspark import SparkContext

    if SparkContext._gateway is not None:
        os.kill(SparkContext._gateway.proc.pid, signal.SIGQUIT)
        time.sleep(_SECONDS)


def _is_timeout(error: BaseException | None) -> bool:
    """Return whether an error, or one that it followed, is that of the time limit: the next call to Java fails too."""
    return error is not None and (_TIMEOUT in str(error) or _is_timeout(error.__context__))
