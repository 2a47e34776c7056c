"""Writer of one task's records to a stream with PutRecords, in the order of each key.

PutRecords may store any part of its records, in any order. A request therefore has one record of each key, and the next record of
a key is sent after the stream has stored the one before. Records without a key have no order.
"""

from __future__ import annotations

import pickle
import random
import time
from collections import deque
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from headrace.sdk import DataError, HeadraceError, RetriableError
from headrace_sinks.kinesis.target_stream import TargetStream

if TYPE_CHECKING:
    import pyarrow as pa

    #: Key of a record, or the number of a record without a key.
    Key = str | int

#: Limits of a request. AWS allows 10 MiB since 2025; emulators, and a record of more bytes in a request of its own, have the older limit.
_REQUEST_RECORDS, _REQUEST_BYTES = 500, 5 << 20
#: Characters of a partition key.
_KEY_CHARACTERS = 256
#: Records and bytes that wait for a request. Many keys fill each request.
_WAITING_RECORDS, _WAITING_BYTES = 5000, 16 << 20
#: Requests in a row of which the stream stores no record, and the longest pause between two of them in seconds.
_MAX_FAILURES, _LONGEST_PAUSE = 10, 5.0


def send_records(
    batches: Iterable[pa.RecordBatch], stream: TargetStream, record_bytes: int, null_key: str
) -> Iterator[pa.RecordBatch]:
    """Send the columns ``key`` and ``value`` of a task (for ``mapInArrow``); yield the pickled error, null without one.

    Spark would repeat a task that raises, and with it its records. ``record_bytes``: largest record of the stream, with its key;
    ``null_key``: partition key of records without a key.
    """
    import pyarrow as pa

    error: bytes | None = None
    try:
        writer = StreamWriter(stream, stream.keep_client(), record_bytes, null_key)
        for batch in batches:
            for key, value in zip(*(batch.column(name).to_pylist() for name in ("key", "value")), strict=True):
                writer.add(key, value)
        writer.finish()
    except HeadraceError as raised:
        error = pickle.dumps(raised)
    yield pa.RecordBatch.from_pydict({"error": pa.array([error], pa.binary())})


class StreamWriter:
    """Records that wait for a request, by key. Each record without a key has a number of its own instead."""

    def __init__(self, stream: TargetStream, client: Any, record_bytes: int, null_key: str = "default") -> None:
        self._stream, self._client, self._record_bytes, self._null_key = stream, client, record_bytes, null_key
        self._waiting: dict[Key, deque[bytes]] = {}
        self._count = self._bytes = self._failures = self._number = 0

    def add(self, key: str | None, value: bytes) -> None:
        """Add a record, which may have no key; send others while too many wait."""
        self._number += 1
        entry = self._number if key is None else key
        self._check_size(entry, value)
        self._waiting.setdefault(entry, deque()).append(value)
        self._count, self._bytes = self._count + 1, self._bytes + self._size(entry, value)
        while self._count > _WAITING_RECORDS or self._bytes > _WAITING_BYTES:
            self._send()

    def finish(self) -> None:
        """Send all records."""
        while self._waiting:
            self._send()

    def _check_size(self, key: Key, value: bytes) -> None:
        if (length := len(self._partition_key(key))) > _KEY_CHARACTERS:
            raise DataError(
                f"a partition key has {length} characters, and Kinesis allows {_KEY_CHARACTERS}",
                where=self._stream.where,
                fix="name fewer or shorter key columns: `tables: - {source: …, key: [id]}`",
            )
        if (size := self._size(key, value)) > self._record_bytes:
            raise DataError(
                f"a record has {size:,} bytes with its key, and the stream allows {self._record_bytes:,}",
                where=self._stream.where,
                fix="set the maximum record size of the stream to up to 10 MiB (UpdateMaxRecordSize); "
                "or remove a large column with `drop`, or schemas with `value.converter.schemas.enable: false`",
            )

    def _send(self) -> None:
        """Send one request. Records that the stream did not store stay the first of their keys."""
        keys = self._choose_keys()
        refusals = self._put(keys)
        stored = [key for key in keys if key not in refusals]
        for key in stored:
            value = self._waiting[key].popleft()
            self._count, self._bytes = self._count - 1, self._bytes - self._size(key, value)
        for key in keys:  # the next request begins with other keys
            if values := self._waiting.pop(key):
                self._waiting[key] = values
        self._failures = 0 if stored else self._failures + 1
        if refusals:
            self._pause(next(iter(refusals.values())))

    def _choose_keys(self) -> list[Key]:
        """Return the keys of the next request, whose records fit its limits."""
        keys: list[Key] = []
        size = 0
        for key, values in self._waiting.items():
            size += self._size(key, values[0])
            if len(keys) == _REQUEST_RECORDS or (keys and size > _REQUEST_BYTES):
                break
            keys.append(key)
        return keys

    def _put(self, keys: list[Key]) -> dict[Key, HeadraceError]:
        """Send the first record of each key; return the temporary errors of those that were not stored. Raises other errors."""
        from botocore.exceptions import ClientError

        records = [
            {"PartitionKey": self._partition_key(key), "Data": self._waiting[key][0], **_choose_shard(key)}
            for key in keys
        ]
        try:
            results = self._client.put_records(**self._stream.parameters, Records=records)["Records"]
        except Exception as error:  # noqa: BLE001 - raised unless it is temporary
            return dict.fromkeys(keys, self._explain(error))
        return {
            key: self._explain(
                ClientError({"Error": {"Code": code, "Message": result.get("ErrorMessage")}}, "PutRecords")
            )
            for key, result in zip(keys, results, strict=True)
            if (code := result.get("ErrorCode"))
        }

    def _explain(self, error: Exception) -> HeadraceError:
        """Return a temporary error. Raises any other."""
        explained = self._stream.explain(error, "PutRecords")
        if not isinstance(explained, RetriableError):
            raise explained from error
        return explained

    def _pause(self, refusal: HeadraceError) -> None:
        """Wait before the next request, longer after each failure. Raises the error after too many of them."""
        if self._failures > _MAX_FAILURES:
            raise refusal
        time.sleep(min(0.1 * 2**self._failures, _LONGEST_PAUSE) * random.uniform(0.5, 1))  # noqa: S311 - spreads requests

    def _partition_key(self, key: Key) -> str:
        return key if isinstance(key, str) else self._null_key

    def _size(self, key: Key, value: bytes) -> int:
        """Return the bytes of a record that count for the limits."""
        return len(self._partition_key(key).encode()) + len(value)


def _choose_shard(key: Key) -> dict[str, str]:
    """Return the hash of a record without a key, which spreads such records over the shards; nothing for others."""
    return {} if isinstance(key, str) else {"ExplicitHashKey": f"{random.getrandbits(128)}"}
