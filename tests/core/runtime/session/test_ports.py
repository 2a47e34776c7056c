"""Ports of a local session: other users of the machine are rejected."""

from __future__ import annotations

import re
import socket
import struct
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from headrace.runtime.session.session_check import find_exposures

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LISTENS, _RPC_REQUEST, _RPC_FAILURE, _OPEN_BLOCKS = "0A", 3, 5, 0


def listening(process: str) -> Iterator[tuple[str, int]]:
    """Yield the hexadecimal address and the port of each socket on which a process listens."""
    sockets = {str(link.readlink()) for link in Path("/proc", process, "fd").iterdir() if link.is_symlink()}
    for table in ("tcp", "tcp6"):
        for line in Path("/proc/net", table).read_text().splitlines()[1:]:
            _, local, _, state, *_, inode = line.split()[:10]
            if state == _LISTENS and f"socket:[{inode}]" in sockets:
                address, port = local.split(":")
                yield address, int(port, 16)


def text(value: str) -> bytes:
    return struct.pack(">i", len(value)) + value.encode()


def open_blocks(application: str, blocks: list[str]) -> bytes:
    """Return Spark's request to read blocks, as its own executors send it before they are authenticated."""
    ids = struct.pack(">i", len(blocks)) + b"".join(map(text, blocks))
    body = bytes([_OPEN_BLOCKS]) + text(application) + text("driver") + ids
    head = bytes([_RPC_REQUEST]) + struct.pack(">qi", 1, len(body))
    return struct.pack(">q", 8 + len(head) + len(body)) + head + body


def ask(port: int, request: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        connection.sendall(request)
        connection.settimeout(3)
        try:
            return connection.recv(65_536)
        except (TimeoutError, ConnectionError):
            return b""


@pytest.mark.spark
@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="needs Linux")
def test_outsiders_are_rejected(spark: SparkSession) -> None:
    context: Any = spark.sparkContext
    secret = context.broadcast("a secret that no other user may read")
    assert secret.value
    java = str(context._jvm.java.lang.management.ManagementFactory.getRuntimeMXBean().getName()).partition("@")[0]
    found = list(listening(java))
    request = open_blocks(context.applicationId, [f"broadcast_{number}_piece0" for number in range(50)])
    answers = {port: ask(port, request) for _, port in found}
    loopback = re.compile("0100007F|0{24}01000000|0{16}FFFF00000100007F")
    assert found
    assert all(loopback.fullmatch(address) for address, _ in found)
    # Spark answers a frame: its length, its type, its content.
    assert {port: answer for port, answer in answers.items() if answer[8:9] not in (b"", bytes([_RPC_FAILURE]))} == {}
    assert any("Sasl" in answer.decode(errors="replace") for answer in answers.values())
    assert "authenticate.secret" not in str(context.getConf().getAll())


@pytest.mark.parametrize(
    ("conf", "warned"),
    [
        ({}, ["without authentication", "unencrypted. Set `spark.network", "unencrypted. Set `spark.io"]),
        ({"spark.authenticate": "true", "spark.network.crypto.enabled": "true"}, ["unencrypted. Set `spark.io"]),
        (
            {
                "spark.authenticate": "true",
                "spark.authenticate.enableSaslEncryption": "TRUE",
                "spark.io.encryption.enabled": "true",
            },
            [],
        ),
    ],
)
def test_warnings_about_a_cluster(conf: dict[str, str], warned: list[str]) -> None:
    context = SimpleNamespace(master="yarn", getConf=lambda: conf)
    found = find_exposures(cast("SparkSession", SimpleNamespace(sparkContext=context)))
    assert len(found) == len(warned)
    assert all(part in warning for part, warning in zip(warned, found, strict=True))
    context.master = "local[2]"
    assert find_exposures(cast("SparkSession", SimpleNamespace(sparkContext=context))) == []
