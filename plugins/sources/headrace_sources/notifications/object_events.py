"""Messages about new objects: of S3 itself, and the same in an envelope of SNS or from EventBridge."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import unquote_plus

#: Most bytes of a key in S3.
_MOST_BYTES = 1024
#: Largest size that Spark's log can hold.
_MOST_SIZE = 2**63 - 1
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


@dataclass(frozen=True)
class CreatedObject:
    """Object that a message reports as new. ``time``: milliseconds since 1970."""

    bucket: str
    key: str
    size: int
    time: int


class UnknownMessageError(ValueError):
    """Message that is no S3 event notification, or names an object that Hadoop cannot read."""


def parse_message(body: str) -> list[CreatedObject]:
    """Return the new objects of a message; empty for other events of S3. UnknownMessageError for other messages."""
    try:
        return list(_find_objects(json.loads(body)))
    except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError) as error:
        raise UnknownMessageError(f"it is no S3 event notification: {type(error).__name__}: {error}") from error


def _find_objects(message: Mapping[str, Any]) -> Iterator[CreatedObject]:
    if message.get("Type") == "Notification" and "Message" in message:  # the envelope of SNS
        yield from _find_objects(json.loads(message["Message"]))
    elif message.get("source") == "aws.s3":
        if message["detail-type"] == "Object Created":
            detail = message["detail"]
            # EventBridge does not encode keys.
            yield _read_object(detail["bucket"], detail["object"], detail["object"]["key"], message["time"])
    elif message.get("Event") != "s3:TestEvent":  # S3 sends a test when notifications are configured.
        for record in message["Records"]:
            described = record["s3"]
            # S3 compatible stores write the prefix.
            if record["eventName"].removeprefix("s3:").startswith("ObjectCreated:"):
                key = unquote_plus(described["object"]["key"], errors="strict")
                yield _read_object(described["bucket"], described["object"], key, record["eventTime"])


def _read_object(bucket: Mapping[str, Any], described: Mapping[str, Any], key: str, time: str) -> CreatedObject:
    if len(key.encode()) > _MOST_BYTES or _CONTROL.search(key):
        # Spark's stream ends when the request for such an object fails, and plans the object again.
        raise ValueError(f"the key {key[:80]!r} has control characters, or more than {_MOST_BYTES} bytes")
    size = int(described.get("size", 0))
    if not 0 <= size <= _MOST_SIZE:
        raise ValueError(f"the size {size} is not between 0 and {_MOST_SIZE} bytes")
    milliseconds = round(datetime.fromisoformat(time).timestamp() * 1000)
    return CreatedObject(str(bucket["name"]), str(key), size, milliseconds)
