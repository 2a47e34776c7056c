"""Concurrent work while Spark reads a DataFrame, such as the commit of another writer."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: Maximum wait of the read in seconds. A writer that locks the table while reading blocks the concurrent work.
_SECONDS = 10


@contextmanager
def in_the_meantime(work: Callable[[], object]) -> Iterator[Callable[[DataFrame], DataFrame]]:
    """Yield a function that runs ``work`` while the column ``name`` of a DataFrame is read.

    ``work`` is complete at the end of the context at the latest.
    """
    server = socket.create_server(("127.0.0.1", 0))
    port = server.getsockname()[1]

    def signal(command: bytes) -> None:
        with socket.create_connection(("127.0.0.1", port)) as connection:
            connection.sendall(command)
            connection.recv(1)

    def slow_down(rows: DataFrame) -> DataFrame:
        from pyspark.sql import functions as F

        def read(value: str) -> str:
            signal(b"w")
            return value

        name = F.udf(lambda value: read(value))("name")  # noqa: PLW0108 - Spark 4.1 rejects a function with types
        return rows.coalesce(1).withColumn("name", name)

    def serve() -> None:
        done: Future[object] | None = None
        command = b"w"
        while command == b"w":
            connection, _ = server.accept()
            with connection:
                command = connection.recv(1)
                done = done or pool.submit(work)
                wait([done], _SECONDS if command == b"w" else None)
        assert done is not None
        done.result()

    with server, ThreadPoolExecutor(2) as pool:
        serving = pool.submit(serve)
        try:
            yield slow_down
        finally:
            signal(b"e")
        serving.result()
