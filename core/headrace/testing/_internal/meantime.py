"""Work that is done while Spark reads a DataFrame: what another writer would do just then."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: How long the reading waits: whoever locks a table while it reads has others wait for it.
_SECONDS = 10


@contextmanager
def in_the_meantime(work: Callable[[], object]) -> Iterator[Callable[[DataFrame], DataFrame]]:
    """Gives a function that has ``work`` done while a DataFrame's column ``name`` is read; it is done at the end at the latest."""
    server = socket.create_server(("127.0.0.1", 0))
    port = server.getsockname()[1]

    def ask(word: bytes) -> None:
        with socket.create_connection(("127.0.0.1", port)) as connection:
            connection.sendall(word)
            connection.recv(1)

    def slow_down(rows: DataFrame) -> DataFrame:
        from pyspark.sql import functions as F

        def read(value: str) -> str:
            ask(b"w")
            return value

        return rows.coalesce(1).withColumn("name", F.udf(read)("name"))

    def serve() -> None:
        done: Future[object] | None = None
        word = b"w"
        while word == b"w":
            connection, _ = server.accept()
            with connection:
                word = connection.recv(1)
                done = done or pool.submit(work)
                wait([done], _SECONDS if word == b"w" else None)
        assert done is not None
        done.result()

    with server, ThreadPoolExecutor(2) as pool:
        serving = pool.submit(serve)
        try:
            yield slow_down
        finally:
            ask(b"e")
        serving.result()
