"""What the JVM answers PySpark, taken without a pause.

The JVM sends an answer of more than 8 KB in pieces, and the second only when the first is acknowledged (Nagle's algorithm), with which
Linux takes its time, 40 ms. The schema of 140 columns is such an answer, and a batch asks for a dozen.
"""

from __future__ import annotations

import io
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer
    from pyspark.sql import SparkSession

#: Linux alone has it.
_AT_ONCE = getattr(socket, "TCP_QUICKACK", None)


class QuickAckReader(io.RawIOBase):
    """A connection's bytes, each piece acknowledged as soon as it is read."""

    def __init__(self, connection: socket.socket, raw: io.RawIOBase) -> None:
        """``raw``: what reads the connection, and is closed with this."""
        self._connection, self._raw = connection, raw

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int | None:
        count = self._raw.readinto(buffer)
        # Said once it lasts for some pieces only.
        self._connection.setsockopt(socket.IPPROTO_TCP, _AT_ONCE, 1)  # type: ignore[arg-type]
        return count

    def close(self) -> None:
        self._raw.close()
        super().close()


class _QuickAckOpener:
    """What opens PySpark's connections to its JVM, a thread's each, and has them read promptly."""

    def __init__(self, open_connection: Callable[[], Any]) -> None:
        self._open = open_connection

    def __call__(self) -> Any:
        connection = self._open()
        if connection.socket.family == socket.AF_INET and isinstance(connection.stream, io.BufferedReader):
            connection.stream = io.BufferedReader(QuickAckReader(connection.socket, connection.stream.detach()))
        return connection


def enable_tcp_quickack(spark: SparkSession) -> None:
    """Has connections to a session's JVM acknowledge at once what they read; those of threads that ask it nothing yet."""
    client: Any = spark.sparkContext._gateway._gateway_client  # type: ignore[union-attr]  # noqa: SLF001
    open_connection = getattr(client, "_create_new_connection", None)  # not where threads share connections
    if _AT_ONCE is not None and open_connection is not None and not isinstance(open_connection, _QuickAckOpener):
        client._create_new_connection = _QuickAckOpener(open_connection)  # noqa: SLF001
