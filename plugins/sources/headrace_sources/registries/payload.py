"""Encodings of records after a schema id: the base of ``avro_payload`` and ``json_payload``."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from headrace_sources.kafka_connect.connect_schema import ConnectSchema

if TYPE_CHECKING:
    from pyspark.sql import Column


@dataclass(frozen=True)
class PayloadReader:
    """Reader of the payloads of one writer schema."""

    tree: ConnectSchema
    #: Steps of a plan from a record's bytes to its parsed struct, restricted to a part of ``tree``; null if it is unreadable.
    #: The first step of JSON returns its string.
    steps: Callable[[ConnectSchema], Sequence[Callable[[Column], Column]]]
    #: Whether the parsed struct has all fields of ``tree`` in its order, regardless of the part.
    is_complete: bool = False


class PayloadParser(ABC):
    """The encoding of payloads and of their schemas."""

    #: Whether ids may also be in JSON around a record (``framing``).
    texts: ClassVar[bool] = False
    #: Options of Spark's JSON reader; None for other encodings.
    json_options: Mapping[str, str] | None = None
    #: Payload that has the meaning of a tombstone.
    null_payload: ClassVar[bytes | None] = None
    #: Fix for records without ids.
    fix_without_ids: ClassVar[str]

    @abstractmethod
    def parse_schema(self, text: str) -> tuple[PayloadReader, ...]:
        """Return the readers of a schema's payloads, in order of preference. DataError for an invalid schema."""
