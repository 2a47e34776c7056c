"""The decoded records of one topic in one batch: what sources give and dialects read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

#: Columns of an events frame.
VALUE = (
    "value"  # struct: the decoded body, or what could be decoded of it; null for a tombstone, and where nothing could
)
KEY = "key"  # struct: the decoded key; absent where the transport carries none
PARTITION = "partition"  # int
OFFSET = "offset"  # bigint: the record's offset, or the first offset of its file
FILE = "file"  # string: the file, null for a record of a broker
PLACE = "place"  # string: sorts as the records lie in the source; no two records of a topic have the same
ERROR = "error"  # string: why the body, or some of it, could not be decoded, else null
RAW = "raw"  # binary: the body as it arrived, where a record has bytes of its own
RAW_KEY = "raw_key"  # binary: the key as it arrived; absent where the transport carries none
HEADERS = "headers"  # array<struct<key: string, value: binary>>; likewise


@dataclass(frozen=True)
class Events:
    """One topic's events. ``load`` reads them, restricted to the fields of the given schema, in the given session.

    Reading is late because only the engine knows which fields a pipeline needs.
    """

    topic: str
    schema: StructType
    load: Callable[[SparkSession, StructType], DataFrame]
    key_schema: StructType | None = None
    #: Why nothing of the topic can be read; its table fails, and the others go on.
    error: Exception | None = None
    #: Of a topic whose changes a rule routes by a field: the field's value in these.
    part: str | None = None

    @classmethod
    def of_failure(cls, topic: str, error: Exception) -> Events:
        """Of a topic that cannot be read."""
        from pyspark.sql.types import StructType

        return cls(topic, StructType(), lambda session, _: session.range(0), error=error)


def header_value(name: str) -> Column:
    """The value (binary) of a record's first header of that name; null where it has none. The frame has HEADERS."""
    from pyspark.sql import functions as F

    # No `filter`: Spark does not compile what has one, and interprets the rest of the step with it.
    place = F.array_position(F.col(f"{HEADERS}.key"), name).cast("int")
    return F.get(F.col(f"{HEADERS}.value"), place - 1)
