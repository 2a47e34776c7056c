"""Immediate acknowledgment of the JVM's responses."""

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

from headrace.spark.sessions import Sessions
from headrace.spark.tuning.quickack import QuickAckReader

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

#: Bytes that the JVM sends in one piece.
_PIECE = 8192


def _count_unacknowledged(sender: socket.socket) -> int:
    """Return the number of sent bytes without an acknowledgment."""
    return int(struct.unpack("i", fcntl.ioctl(sender, termios.TIOCOUTQ, b"\0" * 4))[0])


def test_each_piece_is_acknowledged_immediately() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as reader:
        sender, _ = server.accept()
        with sender, reader.makefile("rb", buffering=0) as raw:
            responses = io.BufferedReader(QuickAckReader(reader, raw), _PIECE)
            for _ in range(20):
                reader.sendall(b"?")
                assert sender.recv(1) == b"?"
                sender.sendall(b"x" * _PIECE)
                assert len(responses.read(_PIECE)) == _PIECE
                # By default Linux delays the acknowledgment of all pieces except the first.
                assert _count_unacknowledged(sender) == 0


def test_thread_reads_responses_of_any_length(spark: SparkSession) -> None:
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


def test_finished_threads_leave_no_connection(spark: SparkSession) -> None:
    Sessions(spark)

    def query_in_threads(count: int) -> int:
        for _ in range(count):
            thread = threading.Thread(target=lambda: spark.range(1).schema)
            thread.start()
            thread.join()
        gc.collect()
        return len(list(Path("/proc/self/fd").iterdir()))

    # py4j closes a thread's connection when the next thread opens one.
    assert query_in_threads(10) <= query_in_threads(2) + 1
