"""The decoded records of one topic in one batch: what sources give and dialects read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

from headrace.sdk import changes as C
from headrace.sdk.reject_reason import RejectReason

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
TIMESTAMP = "timestamp"  # timestamp: the record's own; absent where the transport has none
FILE = "file"  # string: the file, null for a record of a broker
PLACE = "place"  # string: sorts as the records lie in the source; no two records of a topic have the same
ERROR = "error"  # string: why the body, or some of it, could not be decoded, else null
RAW = "raw"  # binary: the body as it arrived, where a record has bytes of its own
RAW_KEY = "raw_key"  # binary: the key as it arrived; absent where the transport carries none
HEADERS = "headers"  # array<struct<key: string, value: binary>>; likewise
#: Column between ``mark_large`` and ``reject_large``: whether a record is too large to be decoded.
TOO_LARGE = "_headrace_too_large"
#: How much is kept of a key, and of a value, that is too large.
KEPT_BYTES = 1000


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


def mark_large(frame: DataFrame, columns: Sequence[str], limit: int | None) -> DataFrame:
    """The frame with TOO_LARGE: whether ``columns`` (bytes or text) have more than ``limit`` bytes together."""
    from pyspark.sql import functions as F

    sizes = [F.coalesce(F.octet_length(name), F.lit(0)) for name in columns]
    is_large = reduce(lambda a, b: a + b, sizes) > limit if limit is not None else F.lit(False)
    return frame.select("*", is_large.alias(TOO_LARGE))


def take_body(column: str) -> Column:
    """What is decoded of a record that TOO_LARGE may mark: nothing, where it is too large."""
    from pyspark.sql import functions as F

    return F.when(~F.col(TOO_LARGE), F.col(column))


def keep_bytes(column: str) -> Column:
    """What a dead letter keeps of a record that TOO_LARGE may mark: how it begins, where it is too large."""
    from pyspark.sql import functions as F

    data = F.col(column).cast("binary")
    return F.when(F.col(TOO_LARGE), F.substring(data, 1, KEPT_BYTES)).otherwise(data)


def reject_large(frame: DataFrame) -> DataFrame:
    """The decoded frame with its ERROR, and without TOO_LARGE."""
    from pyspark.sql import functions as F

    error = F.when(F.col(TOO_LARGE), F.lit(RejectReason.TOO_LARGE)).otherwise(F.col(ERROR))
    return frame.select(*[F.col(name) for name in frame.columns if name not in (ERROR, TOO_LARGE)], error.alias(ERROR))


def drop_tombstones(frame: DataFrame) -> DataFrame:
    """The events that have a value, or should have one."""
    from pyspark.sql import functions as F

    return frame.where(F.col(VALUE).isNotNull() | F.col(ERROR).isNotNull())


def header_value(name: str) -> Column:
    """The value (binary) of a record's first header of that name; null where it has none. The frame has HEADERS."""
    from pyspark.sql import functions as F

    # No `filter`: Spark does not compile what has one, and interprets the rest of the step with it.
    place = F.array_position(F.col(f"{HEADERS}.key"), name).cast("int")
    return F.get(F.col(f"{HEADERS}.value"), place - 1)


def record_columns(topic: str, frame: DataFrame) -> list[Column]:
    """Return columns with the record and its location, for dead letters and for sinks that store records."""
    from pyspark.sql import functions as F

    optional = {RAW_KEY: C.RAW_KEY, HEADERS: C.HEADERS, TIMESTAMP: C.TIMESTAMP}
    return [
        *[F.col(name).alias(column) for name, column in optional.items() if name in frame.columns],
        F.lit(topic).alias(C.TOPIC),
        F.col(PARTITION).alias(C.PARTITION),
        F.col(OFFSET).alias(C.OFFSET),
        F.col(FILE).alias(C.FILE),
        F.col(PLACE).alias(C.PLACE),
        F.col(RAW).alias(C.RAW),
    ]
