"""Decoding of records (key, value, topic, partition, offset) into events."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from headrace.errors import DataError
from headrace.sdk import events as E
from headrace.sdk.events import Events, Part
from headrace.sdk.format import NoSchemaError
from headrace.sdk.positions import record_place
from headrace.sdk.schema_log import Subject

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from headrace.sdk.format import Format, RecordReader
    from headrace.sdk.source import SourceContext


Records = Callable[["SparkSession"], "DataFrame"]


#: Topics whose schemas are determined at the same time. A new topic takes a few small jobs.
PARALLEL_TOPICS = 8
_KEY_ERROR, _VALUE_DETAIL = "_key_error", "_value_detail"
_IS_NO_TOMBSTONE = f"value IS NOT NULL OR {E.TOO_LARGE}"


@dataclass(frozen=True)
class RecordDecoder:
    """Formats of a pipeline's records. Without a key format, keys are not read.

    ``metadata_topic``: returns the description of a metadata topic by its schema; ``key_columns``: topic → the columns of the value
    that the file names as its key.
    """

    value: Format
    key: Format | None = None
    metadata_topic: Callable[[str, StructType], str | None] = lambda topic, schema: None
    key_columns: Callable[[str], Collection[str]] = lambda topic: ()

    def decode(self, context: SourceContext, topics: Mapping[str, Records], *, apart: bool = False) -> list[Events]:
        """Return the events of each topic; ``topics`` has the reader of its records.

        ``apart``: a topic that cannot be read has an error, and the others their events; otherwise the error is raised.
        """
        decode = self._decode_apart if apart else self._decode_topic
        with ThreadPoolExecutor(PARALLEL_TOPICS, thread_name_prefix="headrace-schema") as pool:
            results = pool.map(lambda topic: decode(context, topic, topics[topic]), topics)
            return [events for events in results if events is not None]

    def _decode_apart(self, context: SourceContext, topic: str, records: Records) -> Events | None:
        try:
            return self._decode_topic(context, topic, records)
        except Exception as error:  # noqa: BLE001 - its table raises the error
            return Events.of_failure(topic, error)

    def _decode_topic(self, context: SourceContext, topic: str, records: Records) -> Events | None:
        try:
            with context.schemas.hold(topic):
                return self._open_topic(context, topic, records)
        except NoSchemaError as error:
            return self._metadata_events(topic, records, error)

    def _open_topic(
        self, context: SourceContext, topic: str, records: Records, part: Part | None = None
    ) -> Events | None:
        """Open the readers of a topic or one part of it; None for a new topic that has only tombstones.

        The events have no columns if no record could be read.
        """
        limit = context.max_message_bytes
        frame = _drop_large(records(context.spark), limit)
        subject = part.subject(topic, "value") if part else Subject(topic, "value")
        value = self.value.open(context.spark, frame, "value", subject, context.schemas)
        if not value.schema.fields:
            if frame.where(_IS_NO_TOMBSTONE if limit else "value IS NOT NULL").isEmpty():
                return None
            loader = _EventLoader(records, value, limit=limit)
            return Events(topic, value.schema, loader, locate_errors=loader.locate_errors)
        # Keys of metadata have other columns than the keys of rows, which may follow.
        key = None if self.metadata_topic(topic, value.schema) else self._open_key(context, topic, frame, part)
        names = self.key_columns(topic) if key else ()
        loader = _EventLoader(records, value, key, names, limit)
        narrow = partial(self._open_part, context, topic, loader)
        return Events(
            topic,
            value.schema,
            loader,
            key.schema if key else None,
            types=tuple(value.types),
            narrow=narrow,
            locate_errors=loader.locate_errors,
            is_inferred=value.is_inferred,
        )

    def _open_part(self, context: SourceContext, topic: str, loader: _EventLoader, part: Part) -> Events | None:
        with context.schemas.hold(topic):
            return self._open_topic(context, topic, partial(loader.load_part, part), part)

    def _open_key(self, context: SourceContext, topic: str, frame: DataFrame, part: Part | None) -> RecordReader | None:
        """Return the reader of keys.

        None if keys are not read, or cannot be read and the file names columns of the value instead.
        """
        if self.key is None:
            return None
        subject = part.subject(topic, "key") if part else Subject(topic, "key")
        try:
            return self.key.open(context.spark, frame, "key", subject, context.schemas)
        except DataError:
            if not self.key_columns(topic):
                raise
            return None

    def _metadata_events(self, topic: str, records: Records, error: NoSchemaError) -> Events | None:
        """Return the events of a metadata topic, whose records have no schema; raise the error of other topics."""
        from pyspark.sql.types import NullType, StructField, StructType

        if error.names is None:
            raise error
        names = StructType([StructField(name, NullType()) for name in error.names])
        if not self.metadata_topic(topic, names):
            raise error
        # The records stay undecoded, because they are only counted.
        return Events(topic, names, lambda session, _: records(session)) if names.fields else None


@dataclass(frozen=True)
class _EventLoader:
    """Loader that reads and decodes the records of one topic in one batch."""

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

    def locate_errors(self, frame: DataFrame, schema: StructType) -> DataFrame:
        """Add the description of an error in the value, or else in the key."""
        from pyspark.sql import functions as F

        frame = E.locate_errors(self.value, frame, schema)
        if not self.key or not self.key.schema.fields:
            return frame
        frame = frame.withColumnRenamed(E.DETAIL, _VALUE_DETAIL)
        frame = E.locate_errors(self.key, frame, self.key.schema, E.RAW_KEY)
        return frame.withColumn(E.DETAIL, F.coalesce(_VALUE_DETAIL, E.DETAIL)).drop(_VALUE_DETAIL)

    def load_part(self, part: Part, session: SparkSession) -> DataFrame:
        """Load the records of a part of the topic, as the broker sent them."""
        from pyspark.sql import functions as F

        frame = self(session, part.schema).where(part.condition)
        names = {E.RAW: "value", E.RAW_KEY: "key", E.HEADERS: "headers", E.TIMESTAMP: "timestamp"}
        names |= {E.PARTITION: "partition", E.OFFSET: "offset"}
        return frame.select(*[F.col(name).alias(new) for name, new in names.items() if name in frame.columns])

    def _select_columns(self, frame: DataFrame) -> DataFrame:
        """Select the columns of an events frame from a broker's records; key and value are still undecoded."""
        from pyspark.sql import functions as F

        optional = {"headers": E.HEADERS, "timestamp": E.TIMESTAMP}  # Headers may have the ids of schemas.
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
    """Null key and value of records that are too large."""
    if limit is None:
        return frame
    bodies = {name: E.take_body(name) for name in ("key", "value")}
    return E.mark_large(frame, tuple(bodies), limit).withColumns(bodies)


def _decode_key(frame: DataFrame, reader: RecordReader, key_columns: Collection[str]) -> DataFrame:
    """Decode the keys of a frame. An error of the value takes precedence over one of the key.

    If the file names the key's columns and the record has a value, errors of the key are ignored: the value has these columns.
    """
    from pyspark.sql import functions as F

    frame = reader.decode(frame, E.KEY, reader.schema, _KEY_ERROR)
    others = [name for name in frame.columns if name not in (E.KEY, E.ERROR, _KEY_ERROR)]
    key_error = F.col(_KEY_ERROR)
    if set(key_columns) == set(reader.schema.names):
        key_error = F.when(F.col(E.VALUE).isNull(), key_error)
    error = F.coalesce(E.ERROR, key_error)
    # An incomplete key identifies no row. A rejected record keeps the part that was decoded.
    key = F.when(F.col(_KEY_ERROR).isNull() | error.isNotNull(), F.col(E.KEY))
    return frame.select(*others, key.alias(E.KEY), error.alias(E.ERROR))
