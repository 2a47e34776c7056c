"""Immediate TCP acknowledgment of the JVM's responses to PySpark.

The JVM sends a response of more than 8 KB in pieces, and the second piece only after an acknowledgment (Nagle's algorithm), which Linux
delays by 40 ms. The schema of 140 columns is such a response, and a batch requests a dozen schemas.
"""

from __future__ import annotations

import io
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer
    from pyspark.sql import SparkSession

#: Available on Linux only.
_TCP_QUICKACK = getattr(socket, "TCP_QUICKACK", None)


class QuickAckReader(io.RawIOBase):
    """Reader of a connection that acknowledges each piece immediately."""

    def __init__(self, connection: socket.socket, raw: io.RawIOBase) -> None:
        """``raw`` reads the connection and is closed with this reader."""
        self._connection, self._raw = connection, raw

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int | None:
        count = self._raw.readinto(buffer)
        # Linux resets the option after some pieces.
        self._connection.setsockopt(socket.IPPROTO_TCP, _TCP_QUICKACK, 1)  # type: ignore[arg-type]
        return count

    def close(self) -> None:
        self._raw.close()
        super().close()


class _QuickAckOpener:
    """Factory of PySpark's connections to its JVM, one per thread, with readers that acknowledge immediately."""

    def __init__(self, open_connection: Callable[[], Any]) -> None:
        self._open = open_connection

    def __call__(self) -> Any:
        connection = self._open()
        if connection.socket.family == socket.AF_INET and isinstance(connection.stream, io.BufferedReader):
            connection.stream = io.BufferedReader(QuickAckReader(connection.socket, connection.stream.detach()))
        return connection


def enable_tcp_quickack(spark: SparkSession) -> None:
    """Acknowledge responses immediately on connections to a session's JVM that are opened from now on."""
    client: Any = spark.sparkContext._gateway._gateway_client  # type: ignore[union-attr]  # noqa: SLF001
    open_connection = getattr(client, "_create_new_connection", None)  # absent if threads share connections
    if _TCP_QUICKACK is not None and open_connection is not None and not isinstance(open_connection, _QuickAckOpener):
        client._create_new_connection = _QuickAckOpener(open_connection)  # noqa: SLF001
