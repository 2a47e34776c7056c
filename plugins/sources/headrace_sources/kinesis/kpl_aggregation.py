"""Aggregated records of the Kinesis Producer Library: a magic number, a protobuf message and its MD5."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from headrace_sources.kinesis.shard_positions import ALL_HASH_KEYS, HashKeys
from headrace_sources.limits import INFLATED_RECORD_BYTES

MAGIC = b"\xf3\x89\x9a\xc2"
_DIGEST_BYTES = 16
#: Field numbers of AggregatedRecord and of Record.
_KEYS, _HASH_KEYS, _RECORDS = 1, 2, 3
_KEY_INDEX, _HASH_KEY_INDEX, _DATA = 1, 2, 3
#: Bits of a varint.
_NUMBER_BITS = 70
#: Index in the aggregate (None for a single record), key, data.
Part = tuple[int | None, str, bytes]


def split(key: str, data: bytes, hash_keys: HashKeys = ALL_HASH_KEYS) -> list[Part]:
    """Return the records of an aggregate whose hash keys belong to the shard. A plain or damaged record is returned unchanged.

    An aggregate that arrives after its shard was split or merged is stored in one shard. The producer sends the records
    whose hash keys belong to other shards again, so they would be read twice.
    """
    whole: list[Part] = [(None, key, data)]
    if not data.startswith(MAGIC) or len(data) <= len(MAGIC) + _DIGEST_BYTES:
        return whole
    message, digest = data[len(MAGIC) : -_DIGEST_BYTES], data[-_DIGEST_BYTES:]
    if hashlib.md5(message, usedforsecurity=False).digest() != digest:
        return whole
    try:
        records = _parse(memoryview(message))
    except (ValueError, IndexError):
        return whole
    if not records:
        return whole
    has_index = len(records) > 1
    return [
        (index if has_index else None, key, data)
        for index, (key, data, hash_key) in enumerate(records)
        if _is_in(key, hash_key, hash_keys)
    ]


def _is_in(key: str, hash_key: int | None, hash_keys: HashKeys) -> bool:
    """Return whether a record belongs to a shard, by its explicit hash key or the MD5 of its partition key."""
    if hash_keys == ALL_HASH_KEYS:
        return True
    if hash_key is None:
        hash_key = int.from_bytes(hashlib.md5(key.encode(), usedforsecurity=False).digest(), "big")
    return hash_keys[0] <= hash_key <= hash_keys[1]


def _parse(message: memoryview) -> list[tuple[str, bytes, int | None]]:
    """Return key, data and explicit hash key of each record."""
    keys, hash_keys, records = [], [], []
    for field, value in _fields(message):
        if field == _KEYS and isinstance(value, memoryview):
            keys.append(str(value, "utf-8"))
        elif field == _HASH_KEYS and isinstance(value, memoryview):
            hash_keys.append(int(str(value, "ascii")))
        elif field == _RECORDS and isinstance(value, memoryview):
            records.append(dict(_fields(value)))
    found, size = [], 0
    for record in records:
        index, data = record.get(_KEY_INDEX, 0), record.get(_DATA, b"")
        hash_index = record.get(_HASH_KEY_INDEX)
        if not isinstance(index, int) or isinstance(data, int) or not isinstance(hash_index, int | None):
            raise ValueError("not a field of an aggregated record")  # noqa: TRY004 - one error class for all malformed messages
        size += len(keys[index]) + len(data)
        if size > INFLATED_RECORD_BYTES:  # Many records may share one long key.
            raise ValueError("the records are too large")
        found.append((keys[index], bytes(data), None if hash_index is None else hash_keys[hash_index]))
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
        if shift >= _NUMBER_BITS:  # Longer numbers take quadratic time.
            raise ValueError("the number is too long")
