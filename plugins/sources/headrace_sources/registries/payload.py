"""What records behind a schema's id are written in: the base of ``avro_payload`` and ``json_payload``."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from headrace_sources.kafka_connect.connect_schema import ConnectSchema

if TYPE_CHECKING:
    from pyspark.sql import Column


@dataclass(frozen=True)
class PayloadReader:
    """One way to read the payloads of one writer schema."""

    tree: ConnectSchema
    #: For the part of ``tree`` that is wanted: from a record's bytes to its struct on the wire, or null where it cannot be
    #: read. Each is a step of its own in the plan.
    steps: Callable[[ConnectSchema], Sequence[Callable[[Column], Column]]]


class PayloadParser(ABC):
    """The encoding of payloads and of their schemas."""

    #: Whether ids may be in a text around a record, too (``framing``).
    texts: ClassVar[bool] = False
    #: A payload that says that there is no row, as a tombstone does.
    null_payload: ClassVar[bytes | None] = None
    #: What to do with records that have no id at all.
    fix_without_ids: ClassVar[str]

    @abstractmethod
    def parse_schema(self, text: str) -> tuple[PayloadReader, ...]:
        """The ways to read payloads of a schema; the first that can read one counts. DataError for what is no schema."""
