"""Aggregates of the Kinesis Producer Library that a producer makes to stop readers."""

from __future__ import annotations

import hashlib
import time

import pytest

from headrace_sources.kinesis.kpl_aggregation import MAGIC, split


def aggregate(message: bytes) -> bytes:
    return MAGIC + message + hashlib.md5(message, usedforsecurity=False).digest()


def field(number: int, value: bytes) -> bytes:
    size, length = len(value), b""
    while size > 127:
        size, length = size >> 7, length + bytes([size & 127 | 128])
    return bytes([number << 3 | 2]) + length + bytes([size]) + value


def test_records_of_an_aggregate_are_split() -> None:
    data = aggregate(field(1, b"k" * 200) + field(3, field(3, b"a")) + field(3, field(3, b"b")))
    assert split("own", data) == [(0, "k" * 200, b"a"), (1, "k" * 200, b"b")]


@pytest.mark.parametrize(
    "message",
    [
        pytest.param(b"\xff" * 1_000_000 + b"\x01", id="number of a million bytes"),
        pytest.param(field(1, b"k" * 500_000) + field(3, b"") * 250_000, id="125 GB of keys"),
        pytest.param(field(2, b"9" * 900_000) + field(3, b""), id="long hash key"),
    ],
)
def test_hostile_aggregate_is_one_record_within_a_second(message: bytes) -> None:
    data, started = aggregate(message), time.process_time()
    assert split("own", data) == [(None, "own", data)]
    assert time.process_time() - started < 5
