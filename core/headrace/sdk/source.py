"""Sources: where records come from. Native ones are Spark's own streams; ranged ones plan offsets on the driver."""

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

    from headrace.sdk.schema_log import SchemaLog
    from headrace.spark.storage import Folder

#: A place in a ranged source: anything JSON can hold. Two offsets are equal when their JSON is.
Offset = dict[str, Any]


@dataclass(frozen=True)
class SourceContext:
    """What a source may use while it turns a batch into events."""

    spark: SparkSession
    schemas: SchemaLog
    #: The batch's id, and the folder in which Spark keeps the stream's offsets; None before the stream has started.
    batch: int | None = None
    stream: Folder | None = None
    #: The batch's range, where the source is a ranged one.
    range: tuple[Offset, Offset] | None = None
    #: What to read instead of a batch: topic → what ``replay_range`` said of it, for one batch after the other.
    replay: Mapping[str, Sequence[Any]] | None = None
    #: The most bytes that a record may have: ``events.mark_large``. None: any number.
    max_message_bytes: int | None = None


class Source(Plugin, ABC):
    """Gives events per batch. Derive from NativeSource or RangedSource."""

    #: True when the frames of a batch hold undecoded records (the columns of ``RangedSource.read``): the core decodes key and value
    #: with the formats named beside the source. False when the source decodes by itself in ``events``.
    yields_records: bool = True

    def records(self, context: SourceContext, frame: DataFrame) -> Mapping[str, Callable[[SparkSession], DataFrame]]:
        """Each topic of a batch, and what reads its records in a session. Only for sources that give records.

        Looking for the topics here costs a pass over the batch: a source that knows them does better.
        """
        from pyspark.sql import functions as F

        from headrace.spark.sessions import move_to_session

        topics = sorted(row["topic"] for row in frame.select("topic").distinct().collect())
        return {topic: partial(move_to_session, frame.where(F.col("topic") == topic)) for topic in topics}

    def events(self, context: SourceContext, frame: DataFrame) -> list[Events]:
        """The events of a batch's frame by topic. Only for sources that decode by themselves."""
        raise NotImplementedError(f"{type(self).__name__} has yields_records = False and no events()")

    def replay_range(self, context: SourceContext, topics: Sequence[str]) -> Mapping[str, Any] | None:
        """Topic → where its records of the batch lie, as JSON that is good at any later time.

        A table that fails alone is given them again so, by ``replay`` of the context, with an empty frame. None: the source cannot read
        again, and such a table stops the run.
        """
        return None

    def replay_range_of(self, files: Sequence[str]) -> Any | None:
        """What ``replay_range`` says of a batch of these files of one topic: dead letters are read again from there.

        None: its records lie in no files. Only for sources that decode by themselves.
        """
        return None

    def offset_epoch(self, context: SourceContext, topics: Sequence[str]) -> Mapping[str, str]:
        """Topic → from where the places of its records are counted, as a text that is another when they begin anew.

        Asked for topics whose changes are ordered by place, before a batch is applied. Empty: they never begin anew.
        """
        return {}

    def lag(self, context: SourceContext) -> Mapping[str, int]:
        """Topic → records that are there and that came after the batch. Asked when a batch is done; empty when not known."""
        return {}

    def lag_ms(self, context: SourceContext) -> Mapping[str, int]:
        """Topic → milliseconds by which the batch is behind the newest record. Asked as ``lag`` is, for sources that know this instead."""
        return {}

    def sample_records(self, context: SourceContext) -> Mapping[str, Callable[[SparkSession], DataFrame]]:
        """Each topic that is there now, and what reads a few of its records: like ``records``, before there is a batch."""
        return {}

    def known_schemas(self, context: SourceContext) -> Sequence[Events]:
        """What is known of the topics before the stream starts; empty when nothing is."""
        return ()


class NativeSource(Source):
    """A source that Spark reads by itself: Spark keeps its offsets, retries and rate limits."""

    @abstractmethod
    def stream(self, spark: SparkSession) -> DataFrame:
        """The streaming DataFrame."""

    def prepare_for_trigger_available_now(self, spark: SparkSession) -> None:
        """Before ``stream``: this run applies what is there at this moment, and no more. Spark's stream keeps to that by itself."""
        return


class RangedSource(Source):
    """A source that plans ranges of offsets; the core writes every range down before it is read.

    A batch id always means the same range, also after a crash. Reading happens on executors, through the DataFrame.
    """

    def open(self, spark: SparkSession) -> None:
        """The session of the run, before anything else is asked: for a source that plans by a job of Spark's."""

    @abstractmethod
    def initial(self) -> Offset:
        """Where a stream without a checkpoint starts."""

    @abstractmethod
    def latest(self, start: Offset, limit: int | None) -> Offset:
        """The end of the next batch after ``start``, at most ``limit`` records on; ``start`` when there is nothing."""

    @abstractmethod
    def read(self, spark: SparkSession, start: Offset, end: Offset) -> DataFrame:
        """The records after ``start`` up to and including ``end``: key, value, headers, topic, partition, offset, timestamp."""

    def replay_range(self, context: SourceContext, topics: Sequence[str]) -> Mapping[str, Any] | None:
        return dict.fromkeys(topics, context.range)

    def commit(self, end: Offset) -> None:
        """Everything up to ``end`` is in the tables: the source may forget it."""

    def prepare_for_trigger_available_now(self) -> None:
        """From now on ``latest`` must not go beyond what is there at this moment."""
