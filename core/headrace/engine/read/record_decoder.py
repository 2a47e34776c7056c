"""Undecoded records (key, value, topic, partition, offset) → events, by the formats named beside the source."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.errors import DataError
from headrace.sdk import events as E
from headrace.sdk.events import Events
from headrace.sdk.format import NoSchemaError
from headrace.sdk.positions import record_place
from headrace.sdk.schema_log import Subject

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from headrace.sdk.format import Format, RecordReader
    from headrace.sdk.source import SourceContext


Records = Callable[["SparkSession"], "DataFrame"]


#: Topics whose schemas are found out at the same time: where they are new, each takes a few small jobs.
PARALLEL_TOPICS = 8
_KEY_ERROR = "_key_error"
_IS_NO_TOMBSTONE = f"value IS NOT NULL OR {E.TOO_LARGE}"


@dataclass(frozen=True)
class RecordDecoder:
    """The formats that a pipeline's records are written in; without one for keys, keys are not read.

    ``metadata_topic`` is what its dialects say of a schema; ``key_columns``: topic → the columns of the value that the file
    names as its key.
    """

    value: Format
    key: Format | None = None
    metadata_topic: Callable[[str, StructType], str | None] = lambda topic, schema: None
    key_columns: Callable[[str], Collection[str]] = lambda topic: ()

    def decode(self, context: SourceContext, topics: Mapping[str, Records], *, apart: bool = False) -> list[Events]:
        """The events of each topic; ``topics`` has what reads its records in a session.

        ``apart``: a topic that cannot be read has an error, and the others their events; else it is raised.
        """
        decode = self._decode_apart if apart else self._decode_topic
        with ThreadPoolExecutor(PARALLEL_TOPICS, thread_name_prefix="headrace-schema") as pool:
            results = pool.map(lambda topic: decode(context, topic, topics[topic]), topics)
            return [events for events in results if events is not None]

    def _decode_apart(self, context: SourceContext, topic: str, records: Records) -> Events | None:
        try:
            return self._decode_topic(context, topic, records)
        except Exception as error:  # noqa: BLE001 - its table raises it
            return Events.of_failure(topic, error)

    def _decode_topic(self, context: SourceContext, topic: str, records: Records) -> Events | None:
        try:
            with context.schemas.hold(topic):
                return self._open_topic(context, topic, records)
        except NoSchemaError as error:
            return self._metadata_events(topic, records, error)

    def _open_topic(self, context: SourceContext, topic: str, records: Records) -> Events | None:
        """Opens the readers of a topic; None for nothing but tombstones of a topic that was never seen before.

        Events without a column where none of its records could be read.
        """
        limit = context.max_message_bytes
        frame = _drop_large(records(context.spark), limit)
        value = self.value.open(context.spark, frame, "value", Subject(topic, "value"), context.schemas)
        if not value.schema.fields:
            if frame.where(_IS_NO_TOMBSTONE if limit else "value IS NOT NULL").isEmpty():
                return None
            return Events(topic, value.schema, _EventLoader(records, value, limit=limit))
        key = self._open_key(context, topic, frame)
        names = self.key_columns(topic) if key else ()
        return Events(topic, value.schema, _EventLoader(records, value, key, names, limit), key.schema if key else None)

    def _open_key(self, context: SourceContext, topic: str, frame: DataFrame) -> RecordReader | None:
        """None where keys are not read, or cannot be and need not: the file names columns of the value."""
        if self.key is None:
            return None
        try:
            return self.key.open(context.spark, frame, "key", Subject(topic, "key"), context.schemas)
        except DataError:
            if not self.key_columns(topic):
                raise
            return None

    def _metadata_events(self, topic: str, records: Records, error: NoSchemaError) -> Events | None:
        """The events of a topic whose records have no schema and are no rows; raises the error of any other topic."""
        from pyspark.sql.types import NullType, StructField, StructType

        if error.names is None:
            raise error
        names = StructType([StructField(name, NullType()) for name in error.names])
        if not self.metadata_topic(topic, names):
            raise error
        # As they came: nobody reads more of them than how many they are.
        return Events(topic, names, lambda session, _: records(session)) if names.fields else None


@dataclass(frozen=True)
class _EventLoader:
    """Reads and decodes the records of one topic in one batch."""

    records: Records
    value: RecordReader
    key: RecordReader | None = None
    key_columns: Collection[str] = ()
    limit: int | None = None

    def __call__(self, session: SparkSession, schema: StructType) -> DataFrame:
        frame = E.mark_large(self.records(session), ("key", "value"), self.limit)
        frame = self.value.decode(self._select_columns(frame), E.VALUE, schema, E.ERROR)
        if self.key and self.key.schema.fields:
            frame = _decode_key(frame, self.key, self.key_columns)
        return E.reject_large(frame)

    def _select_columns(self, frame: DataFrame) -> DataFrame:
        """A broker's records in the columns of an events frame, key and value still undecoded."""
        from pyspark.sql import functions as F

        optional = {"headers": E.HEADERS, "timestamp": E.TIMESTAMP}  # headers: with ids of schemas, sometimes
        return frame.select(
            *[F.col(name).alias(column) for name, column in optional.items() if name in frame.columns],
            E.take_body("value").alias(E.VALUE),
            *([E.take_body("key").alias(E.KEY)] if self.key else []),
            F.col("partition").cast("int").alias(E.PARTITION),
            F.col("offset").cast("bigint").alias(E.OFFSET),
            F.lit(None).cast("string").alias(E.FILE),
            record_place(F.col("offset"), F.col("partition")).alias(E.PLACE),
            E.keep_bytes("value").alias(E.RAW),
            E.keep_bytes("key").alias(E.RAW_KEY),
            F.col(E.TOO_LARGE),
        )


def _drop_large(frame: DataFrame, limit: int | None) -> DataFrame:
    """A broker's records, of which those that are too large have neither key nor value."""
    if limit is None:
        return frame
    bodies = {name: E.take_body(name) for name in ("key", "value")}
    return E.mark_large(frame, tuple(bodies), limit).withColumns(bodies)


def _decode_key(frame: DataFrame, reader: RecordReader, key_columns: Collection[str]) -> DataFrame:
    """The frame with its keys decoded; what is wrong with a value is said before what is wrong with its key.

    Of a key whose columns the file names, nothing is wrong where there is a value: it has them.
    """
    from pyspark.sql import functions as F

    frame = reader.decode(frame, E.KEY, reader.schema, _KEY_ERROR)
    # Half a key names no row.
    frame = frame.withColumn(E.KEY, F.when(F.col(_KEY_ERROR).isNull(), F.col(E.KEY)))
    others = [name for name in frame.columns if name not in (E.ERROR, _KEY_ERROR)]
    key_error = F.col(_KEY_ERROR)
    if set(key_columns) == set(reader.schema.names):
        key_error = F.when(F.col(E.VALUE).isNull(), key_error)
    return frame.select(*others, F.coalesce(E.ERROR, key_error).alias(E.ERROR))
