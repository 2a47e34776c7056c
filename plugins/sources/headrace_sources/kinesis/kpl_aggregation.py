"""Aggregated records of the Kinesis Producer Library: a magic number, a protobuf message and its MD5."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

MAGIC = b"\xf3\x89\x9a\xc2"
_DIGEST_BYTES = 16
#: Field numbers of AggregatedRecord and of Record.
_KEYS, _RECORDS = 1, 3
_KEY_INDEX, _DATA = 1, 3


def split(key: str, data: bytes) -> list[tuple[str, bytes]]:
    """Return key and data of each record in an aggregate. A plain or damaged record is returned unchanged."""
    if not data.startswith(MAGIC) or len(data) <= len(MAGIC) + _DIGEST_BYTES:
        return [(key, data)]
    message, digest = data[len(MAGIC) : -_DIGEST_BYTES], data[-_DIGEST_BYTES:]
    if hashlib.md5(message, usedforsecurity=False).digest() != digest:
        return [(key, data)]
    try:
        return _parse(memoryview(message)) or [(key, data)]
    except (ValueError, IndexError):
        return [(key, data)]


def _parse(message: memoryview) -> list[tuple[str, bytes]]:
    keys, records = [], []
    for field, value in _fields(message):
        if field == _KEYS and isinstance(value, memoryview):
            keys.append(str(value, "utf-8"))
        elif field == _RECORDS and isinstance(value, memoryview):
            records.append(dict(_fields(value)))
    found = []
    for record in records:
        index, data = record.get(_KEY_INDEX, 0), record.get(_DATA, b"")
        if not isinstance(index, int) or isinstance(data, int):
            raise ValueError("not a field of an aggregated record")  # noqa: TRY004 - one error class for all malformed messages
        found.append((keys[index], bytes(data)))
    return found


def _fields(message: memoryview) -> Iterator[tuple[int, int | memoryview]]:
    """Yield number and value of each varint or length-delimited field. ValueError for other types and a truncated message."""
    at = 0
    while at < len(message):
        tag, at = _number(message, at)
        value: int | memoryview
        value, at = _number(message, at)
        if tag & 7 == 2:
            at += value
            value = message[at - value : at]
        elif tag & 7:
            raise ValueError("unsupported wire type")
        yield tag >> 3, value
    if at > len(message):
        raise ValueError("truncated field")


def _number(message: memoryview, at: int) -> tuple[int, int]:
    """Read a varint; return it and its end."""
    number = shift = 0
    while True:
        byte = message[at]
        at += 1
        number |= (byte & 127) << shift
        if byte < 128:
            return number, at
        shift += 7
