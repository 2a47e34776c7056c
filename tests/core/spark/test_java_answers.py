"""What the JVM answers is read without a pause."""

from __future__ import annotations

import fcntl
import gc
import io
import socket
import struct
import termios
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from headrace.spark.py4j_quickack import QuickAckReader
from headrace.spark.sessions import Sessions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

#: Bytes that the JVM sends at a time.
_PIECE = 8192


def _count_unacknowledged(sender: socket.socket) -> int:
    """Bytes that were sent and not acknowledged."""
    return int(struct.unpack("i", fcntl.ioctl(sender, termios.TIOCOUTQ, b"\0" * 4))[0])


def test_what_is_read_is_acknowledged_at_once() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as reader:
        sender, _ = server.accept()
        with sender, reader.makefile("rb", buffering=0) as raw:
            answers = io.BufferedReader(QuickAckReader(reader, raw), _PIECE)
            for _ in range(20):
                reader.sendall(b"?")
                assert sender.recv(1) == b"?"
                sender.sendall(b"x" * _PIECE)
                assert len(answers.read(_PIECE)) == _PIECE
                # Linux would wait with all but the first, for there may be something to send along.
                assert _count_unacknowledged(sender) == 0


def test_a_thread_reads_answers_of_any_length(spark: SparkSession) -> None:
    Sessions(spark)
    names = [f"column_{at}" for at in range(2000)]

    def read() -> tuple[list[str], object]:
        found = spark.range(1).selectExpr(*[f"id AS {name}" for name in names]).columns
        client = spark.sparkContext._gateway._gateway_client  # type: ignore[union-attr]
        return found, client.get_thread_connection().stream.raw

    with ThreadPoolExecutor(1) as pool:
        found, raw = pool.submit(read).result()
    assert found == names
    assert isinstance(raw, QuickAckReader)


def test_threads_that_ended_leave_no_connection(spark: SparkSession) -> None:
    Sessions(spark)

    def ask_in_threads(count: int) -> int:
        for _ in range(count):
            thread = threading.Thread(target=lambda: spark.range(1).schema)
            thread.start()
            thread.join()
        gc.collect()
        return len(list(Path("/proc/self/fd").iterdir()))

    # py4j closes a thread's connection when the next thread opens one.
    assert ask_in_threads(10) <= ask_in_threads(2) + 1
