"""Sources of records. Native sources are Spark streams; ranged sources plan offsets on the driver."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from headrace.sdk.events import Events
from headrace.sdk.plugin import Plugin

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from headrace.progress.lineage import Dataset
    from headrace.sdk.schema_log import SchemaLog
    from headrace.spark.storage import Folder

#: Offset of a ranged source: any JSON value. Two offsets are equal when their JSON is.
Offset = dict[str, Any]


@dataclass(frozen=True)
class SourceContext:
    """Context in which a source reads a batch."""

    spark: SparkSession
    schemas: SchemaLog
    #: Id of the batch, and the folder of Spark's offsets of the stream; None before the stream has started.
    batch: int | None = None
    stream: Folder | None = None
    #: Range of the batch, for ranged sources.
    range: tuple[Offset, Offset] | None = None
    #: Ranges to read instead of a batch: topic → results of ``replay_range``, one per batch.
    replay: Mapping[str, Sequence[Any]] | None = None
    #: Maximum size of a record in bytes: ``events.mark_large``. None: no limit.
    max_message_bytes: int | None = None


class Source(Plugin, ABC):
    """Source of events per batch. Derive from NativeSource or RangedSource."""

    #: True when the frames of a batch hold undecoded records (the columns of ``RangedSource.read``): the core decodes key and value
    #: with the formats of the pipeline file. False when the source decodes its records in ``events``.
    yields_records: bool = True
    #: Whether events may have ``load_current``: each sink must then keep one row per key.
    finds_missing_rows: bool = False

    def records(self, context: SourceContext, frame: DataFrame) -> Mapping[str, Callable[[SparkSession], DataFrame]]:
        """Return each topic of a batch with a function that reads its records in a session. Only for sources that yield records.

        The default finds the topics with a pass over the batch. Override it if the source can list the topics without reading records.
        """
        from pyspark.sql import functions as F

        from headrace.spark.sessions import move_to_session

        topics = sorted(row["topic"] for row in frame.select("topic").distinct().collect())
        return {topic: partial(move_to_session, frame.where(F.col("topic") == topic)) for topic in topics}

    def events(self, context: SourceContext, frame: DataFrame) -> list[Events]:
        """Return the events of a batch's frame by topic. Only for sources that decode their own records."""
        raise NotImplementedError(f"{type(self).__name__} has yields_records = False and no events()")

    def replay_range(self, context: SourceContext, topics: Sequence[str]) -> Mapping[str, Any] | None:
        """Return topic → location of its records in the batch, as JSON that stays valid.

        A table that fails alone gets these records again, by ``replay`` of the context, with an empty frame. None: the source cannot read
        records again, and such a table stops the run.
        """
        return None

    def describe_batch(self, context: SourceContext, topics: Sequence[str]) -> Mapping[str, Any] | None:
        """Return topic → location of its records in the batch, as JSON that a repeated batch does not change; None when unknown.

        The batch's mark in a table contains a digest of this JSON. The default is the ``replay_range``.
        """
        return self.replay_range(context, topics)

    def replay_range_of(self, files: Sequence[str]) -> Any | None:
        """Return the ``replay_range`` of a batch with these files of one topic: dead letters are read again from there.

        None: the records are not in files. Only for sources that decode their own records.
        """
        return None

    def offset_epoch(self, context: SourceContext, topics: Sequence[str]) -> Mapping[str, str]:
        """Return topic → identity of its offsets' origin, a string that changes when offsets restart.

        Called for topics whose changes are ordered by offset, before a batch is applied. Empty: offsets never restart.
        """
        return {}

    def lag(self, context: SourceContext) -> Mapping[str, int]:
        """Return topic → number of records after the batch. Called when a batch is done; empty when unknown."""
        return {}

    def lag_ms(self, context: SourceContext) -> Mapping[str, int]:
        """Return topic → milliseconds between the batch and the newest record, for sources that have no ``lag``. Called when a batch is done."""
        return {}

    def find_end(self, context: SourceContext) -> Offset | None:
        """Return the end of the records that the source has now, as JSON; None when unknown."""
        return None

    def has_read(self, context: SourceContext, end: Offset) -> bool:
        """Return whether the batches up to the context's contain all records before ``end``, a result of ``find_end``."""
        raise NotImplementedError(f"{type(self).__name__} has find_end() and no has_read()")

    def locate(self, topic: str) -> Dataset | None:
        """Return the place of a topic's data for lineage, without a login; None if it is unknown. No server is asked."""
        return None

    def named_topics(self) -> Sequence[str]:
        """Return the topics that its options name; empty if only a pattern or a server determines them."""
        return ()

    def sample_records(self, context: SourceContext) -> Mapping[str, Callable[[SparkSession], DataFrame]]:
        """Return each current topic with a function that reads some of its records: like ``records``, before the first batch."""
        return {}

    def known_schemas(self, context: SourceContext) -> Sequence[Events]:
        """Return the topics whose schemas are known before the stream starts; empty when there are none."""
        return ()

    def omitted(self, context: SourceContext) -> Mapping[str, int]:
        """Return kind → number of files or records that the source skips, for ``headrace check``."""
        return {}


class NativeSource(Source):
    """Source that is a Spark stream: Spark keeps offsets, retries and rate limits."""

    def check_stream(self, context: SourceContext) -> None:
        """Raise an error if the stream cannot continue after the batches in its log. Called before ``stream``."""

    @abstractmethod
    def stream(self, spark: SparkSession) -> DataFrame:
        """Return the streaming DataFrame."""

    def poll(self) -> None:
        """Store what the stream will find. Called every second of a continuous run, also during a batch.

        While it raises a RetriableError, the run shows the error and continues.
        """
        return

    def repair_plan(self, context: SourceContext, error: BaseException) -> bool:
        """Change the planned batch after an error of the stream. Return whether it did: the stream then starts again."""
        return False

    def commit(self, context: SourceContext) -> None:
        """Acknowledge the records up to the end of the context's batch: the tables have them.

        Not called while a table is set aside. An error is a warning of the run.
        """
        return

    def prepare_for_trigger_available_now(self, spark: SparkSession) -> None:
        """Prepare a run that applies only the records available now. Called before ``stream``; Spark's stream enforces the limit."""
        return


class RangedSource(Source):
    """Source that plans ranges of offsets; the core stores each range before it is read.

    A batch id always refers to the same range, also after a crash. Executors read the records, through the DataFrame.
    """

    def open(self, spark: SparkSession) -> None:
        """Open the source with the run's session, before other calls: for a source that plans with Spark jobs."""

    @abstractmethod
    def initial(self) -> Offset:
        """Return the start offset of a stream without a checkpoint."""

    @abstractmethod
    def latest(self, start: Offset, limit: int | None) -> Offset:
        """Return the end of the next batch after ``start``, at most ``limit`` records later; ``start`` if there is no new record."""

    @abstractmethod
    def read(self, spark: SparkSession, start: Offset, end: Offset) -> DataFrame:
        """Return the records after ``start`` up to and including ``end``: key, value, headers, topic, partition, offset, timestamp."""

    def replay_range(self, context: SourceContext, topics: Sequence[str]) -> Mapping[str, Any] | None:
        return dict.fromkeys(topics, context.range)

    def commit(self, end: Offset) -> None:
        """Acknowledge all records up to ``end``: the tables have them."""

    def prepare_for_trigger_available_now(self) -> None:
        """Limit ``latest`` to the records available now."""
