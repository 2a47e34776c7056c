"""Bootstrap brokers that accept connections, and others."""

from __future__ import annotations

import socket

import pytest

from headrace.sdk import RetriableError
from headrace_kafka.broker_probe import BROKER_UNREACHABLE, find_unreachable


def test_brokers() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        name = f"PLAINTEXT://127.0.0.1:{server.getsockname()[1]}"
        assert list(find_unreachable(name)) == []
        (found,) = find_unreachable(f"{name}, 127.0.0.1:1")
    assert (found.kind, found.where) == (BROKER_UNREACHABLE, "127.0.0.1:1")
    assert found.what == "the broker does not accept a connection: Connection refused"


def test_no_broker() -> None:
    with pytest.raises(RetriableError) as raised:
        list(find_unreachable("127.0.0.1:1,broker,[::1]:99999"))
    assert raised.value.what.startswith(
        "no broker accepts a connection: 127.0.0.1:1: Connection refused; broker: it is not host:port; [::1]:99999: "
    )
