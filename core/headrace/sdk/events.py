"""Decoded records of one topic in one batch: sources return them, dialects read them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

from headrace.sdk import changes as C
from headrace.sdk.reject_reason import RejectReason
from headrace.sdk.schema_log import Subject, part_subject

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from headrace.sdk.format import RecordReader

#: Columns of an events frame.
VALUE = (
    "value"  # struct: the decoded body, or its decodable part; null for a tombstone, and when nothing could be decoded
)
KEY = "key"  # struct: the decoded key; absent when the transport has none
PARTITION = "partition"  # int
OFFSET = "offset"  # bigint: the record's offset, or the first offset of its file
TIMESTAMP = "timestamp"  # timestamp: the record's own; absent when the transport has none
FILE = "file"  # string: the file, null for a broker's record
PLACE = "place"  # string: sorts records in the order of the source; unique in a topic
TYPE = "record_type"  # string: the name of the record's schema; absent unless the topic's records have several
ERROR = "error"  # string: why the body, or a part of it, could not be decoded, or null
DETAIL = "detail"  # string: which field caused the error, and its type, never its value; only for dead letters
RAW = "raw"  # binary: the body as it arrived, when a record has its own bytes
RAW_KEY = "raw_key"  # binary: the key as it arrived; absent when the transport has none
HEADERS = "headers"  # array<struct<key: string, value: binary>>; likewise
#: Column between ``mark_large`` and ``reject_large``: whether a record is too large to decode.
TOO_LARGE = "_headrace_too_large"
#: Number of bytes that a dead letter keeps of a key, and of a value, that is too large.
KEPT_BYTES = 1000


@dataclass(frozen=True)
class Part:
    """Records of one table in a topic of several tables."""

    #: Name of the table in the records.
    name: str
    #: Fields of the topic's schema that contain the name.
    schema: StructType
    #: Condition that is true for the table's records, in an events frame of this schema.
    condition: Column
    #: Returns the table's records of such a frame. Their offsets are those in the whole topic.
    select: Callable[[DataFrame], DataFrame]

    def subject(self, topic: str, part: str) -> Subject:
        """Return the subject of the table's keys or values."""
        return part_subject(topic, self.name, part)


@dataclass(frozen=True)
class Events:
    """Events of one topic. ``load`` reads them in a session, restricted to the fields of a schema.

    Reading is deferred until the engine has determined the fields that a pipeline needs.
    """

    topic: str
    schema: StructType
    load: Callable[[SparkSession, StructType], DataFrame]
    key_schema: StructType | None = None
    #: Why the topic cannot be read; its table fails, and the others continue.
    error: Exception | None = None
    #: For a topic whose changes a rule routes by a field: the field's value in these events.
    part: str | None = None
    #: Adds DETAIL to a frame that ``load`` returned for a schema; None: the frame has it already, or has none.
    locate_errors: Callable[[DataFrame, StructType], DataFrame] | None = None
    #: Names of the records' schemas, as far as schemas have names.
    types: tuple[str, ...] = ()
    #: Returns the events of a part of the topic with their own column types; None: all parts have the topic's column types.
    narrow: Callable[[Part], Events | None] | None = None
    #: Whether the record's offset orders the topic although events have position fields, because some events lack the values.
    by_offset: bool = False
    #: Whether the fields come from the records alone (``RecordReader.is_inferred``).
    is_inferred: bool = False
    #: Loads the rows that the source has at that moment, like ``load``. After the batch, stored rows of the topic whose keys are not
    #: among them are removed. Only for topics whose events are read from current rows, and if ``Source.finds_missing_rows``.
    load_current: Callable[[SparkSession, StructType], DataFrame] | None = None

    @classmethod
    def of_failure(cls, topic: str, error: Exception) -> Events:
        """Return the events of a topic that cannot be read."""
        from pyspark.sql.types import StructType

        return cls(topic, StructType(), lambda session, _: session.range(0), error=error)


def mark_large(frame: DataFrame, columns: Sequence[str], limit: int | None) -> DataFrame:
    """Return the frame with TOO_LARGE: whether ``columns`` (bytes or strings) have more than ``limit`` bytes together."""
    from pyspark.sql import functions as F

    sizes = [F.coalesce(F.octet_length(name), F.lit(0)) for name in columns]
    is_large = reduce(lambda a, b: a + b, sizes) > limit if limit is not None else F.lit(False)
    return frame.select("*", is_large.alias(TOO_LARGE))


def take_body(column: str) -> Column:
    """Return the value to decode: null when TOO_LARGE marks the record."""
    from pyspark.sql import functions as F

    return F.when(~F.col(TOO_LARGE), F.col(column))


def keep_bytes(column: str) -> Column:
    """Return the bytes that a dead letter keeps: only the beginning when TOO_LARGE marks the record."""
    from pyspark.sql import functions as F

    data = F.col(column).cast("binary")
    return F.when(F.col(TOO_LARGE), F.substring(data, 1, KEPT_BYTES)).otherwise(data)


def reject_large(frame: DataFrame) -> DataFrame:
    """Return the decoded frame with its final ERROR, without TOO_LARGE."""
    from pyspark.sql import functions as F

    error = F.when(F.col(TOO_LARGE), F.lit(RejectReason.TOO_LARGE)).otherwise(F.col(ERROR))
    return frame.select(*[F.col(name) for name in frame.columns if name not in (ERROR, TOO_LARGE)], error.alias(ERROR))


def locate_errors(reader: RecordReader, frame: DataFrame, schema: StructType, body: str = RAW) -> DataFrame:
    """Add DETAIL to decoded events: the reader's description of each undecodable record, from the bytes in ``body``."""
    from pyspark.sql import functions as F

    is_undecodable = F.col(ERROR) == RejectReason.UNDECODABLE
    frame = frame.select("*", F.when(is_undecodable, F.col(body)).alias(DETAIL))
    return reader.locate_errors(frame, DETAIL, schema).withColumn(DETAIL, F.when(is_undecodable, F.col(DETAIL)))


def add_detail(frame: DataFrame) -> DataFrame:
    """Return the frame with DETAIL, null if it had none."""
    from pyspark.sql import functions as F

    return frame if DETAIL in frame.columns else frame.withColumn(DETAIL, F.lit(None).cast("string"))


def drop_tombstones(frame: DataFrame) -> DataFrame:
    """Return the events that have a value or an error."""
    from pyspark.sql import functions as F

    return frame.where(F.col(VALUE).isNotNull() | F.col(ERROR).isNotNull())


def header_value(name: str, headers: str = HEADERS) -> Column:
    """Return the value (binary) of a record's first header of that name, null if there is none. The frame has the column ``headers``."""
    from pyspark.sql import functions as F

    # No `filter`: Spark does not compile an expression with it, and interprets the rest of the step.
    place = F.array_position(F.col(f"{headers}.key"), name).cast("int")
    return F.get(F.col(f"{headers}.value"), place - 1)


def record_columns(topic: str, frame: DataFrame) -> list[Column]:
    """Return columns with the record and its location, for dead letters and for sinks that store records."""
    from pyspark.sql import functions as F

    optional = {RAW_KEY: C.RAW_KEY, HEADERS: C.HEADERS, TIMESTAMP: C.TIMESTAMP, TYPE: C.RECORD_TYPE, DETAIL: C.DETAIL}
    return [
        *[F.col(name).alias(column) for name, column in optional.items() if name in frame.columns],
        F.lit(topic).alias(C.TOPIC),
        F.col(PARTITION).alias(C.PARTITION),
        F.col(OFFSET).alias(C.OFFSET),
        F.col(FILE).alias(C.FILE),
        F.col(PLACE).alias(C.PLACE),
        F.col(RAW).alias(C.RAW),
    ]
