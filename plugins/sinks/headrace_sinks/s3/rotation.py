"""Rotation of objects: by number of records, by time, and at a change of the encoded partition.

As in the connector, all objects of a topic partition are complete at the same record, in all encoded partitions. Rotation depends only
on the records since the first pending one, and not on the limits of batches.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from headrace.sdk import DataError
from headrace_sinks.s3.object_state import TopicPartition
from headrace_sinks.s3.pending_records import ENCODED, OFFSET, PARTITION, TIME, TOPIC
from headrace_sinks.s3.s3_config import S3SinkConfig

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Row, SparkSession

_STATE = "last: bigint, start: bigint, count: bigint, base: bigint, encoded: string"
_SPAN = "struct<start: bigint, end: bigint>"


@dataclass(frozen=True)
class Span:
    """Range of records of a topic partition whose objects are complete, from ``start`` to ``end`` inclusive."""

    topic: str
    partition: int
    start: int
    end: int
    #: Number of their schema in the state.
    schema: int


@dataclass(frozen=True)
class Rotation:
    """Effect of a batch on a topic partition: the complete spans, and the partition with its pending records."""

    spans: list[Span]
    after: TopicPartition
    first: int


def literal_rows(session: SparkSession, schema: str, rows: Iterable[object]) -> DataFrame:
    """Create a DataFrame of a few rows from a literal. Python objects would need a Python worker."""
    from pyspark.sql import functions as F

    return session.range(0, 1, 1, 1).select(
        F.inline(F.from_json(F.lit(json.dumps(list(rows))), f"array<struct<{schema}>>"))
    )


def drop_processed(records: DataFrame, known: Iterable[TopicPartition]) -> DataFrame:
    """Drop the records up to the last processed record of their topic partition."""
    from pyspark.sql import functions as F

    last = F.from_json(F.lit(json.dumps({_name(p): p.last for p in known})), "map<string, bigint>")
    return records.where(F.col(OFFSET) > F.coalesce(last[F.concat(TOPIC, F.lit("+"), PARTITION)], F.lit(-1)))


def rotate(
    records: DataFrame, before: Iterable[TopicPartition], config: S3SinkConfig, schema: int, now: int
) -> list[Rotation]:
    """Rotate the objects of each topic partition of a batch. ``before``: the known partitions with their pending records.

    Pending records of another schema are complete. DataError for records that were processed before: they would overwrite objects.
    """
    from pyspark.sql import functions as F

    known = {(partition.topic, partition.partition): partition for partition in before}
    by_time = config.rotate_interval_ms > 0
    fields = [F.col(OFFSET), *([F.col(TIME), F.col(ENCODED)] if by_time else [])]
    parts = records.groupBy(TOPIC, PARTITION).agg(F.sort_array(F.collect_list(F.struct(*fields))).alias("records"))
    pending = {_name(p): asdict(p) for p in known.values() if p.schema == schema}
    state = F.from_json(F.lit(json.dumps(pending)), f"map<string, struct<{_STATE}>>")[
        F.concat(TOPIC, F.lit("+"), PARTITION)
    ]
    done = F.array().cast(f"array<{_SPAN}>").alias("done")
    defaults = {"last": F.lit(-1), "start": F.lit(0), "count": F.lit(0)}
    start = F.struct(
        done,
        *[F.coalesce(state[name], value).cast("bigint").alias(name) for name, value in defaults.items()],
        state["base"].alias("base"),
        state["encoded"].alias("encoded"),
    )
    folded = parts.select(
        TOPIC,
        PARTITION,
        F.element_at("records", 1)[OFFSET].alias("first"),
        F.aggregate("records", start, lambda before, record: _add_record(before, record, config)).alias("after"),
    )
    found = folded.select(TOPIC, PARTITION, "first", "after.*").collect()
    return [_describe(row, known.get((row[TOPIC], row[PARTITION])), config, schema, now) for row in found]


def _describe(row: Row, old: TopicPartition | None, config: S3SinkConfig, schema: int, now: int) -> Rotation:
    """Build the rotation of a topic partition. ``old``: its previous state."""
    if old is not None and row["first"] <= old.last:
        raise DataError(
            f"offset {row['first']} of {row[TOPIC]}, partition {row[PARTITION]}, follows offset {old.last}, and would overwrite "
            "existing objects",
            fix="if the topic was recreated, start with a new checkpoint and another `topics.dir`",
        )
    after = TopicPartition(
        row[TOPIC],
        row[PARTITION],
        last=row["last"],
        start=row["start"],
        count=row["count"],
        base=row["base"],
        encoded=row["encoded"],
        opened=old.opened if old and old.count and old.start == row["start"] else now,
        schema=schema,
    )
    spans = [to_span(old)] if old and old.count and old.schema != schema else []
    spans += [Span(row[TOPIC], row[PARTITION], span["start"], span["end"], schema) for span in row["done"]]
    if after.count >= config.flush_size:
        spans, after = [*spans, to_span(after)], close(after)
    return Rotation(spans, after, row["first"])


def _name(partition: TopicPartition) -> str:
    return f"{partition.topic}+{partition.partition}"


def to_span(partition: TopicPartition) -> Span:
    """Return the pending records of a topic partition as a complete span."""
    return Span(partition.topic, partition.partition, partition.start, partition.last, partition.schema)


def close(partition: TopicPartition) -> TopicPartition:
    """Return the topic partition without pending records."""
    return replace(partition, count=0, base=None, encoded=None)


def find_next_rotation(after: int, config: S3SinkConfig) -> int | None:
    """Return the next scheduled rotation after a time, in milliseconds since 1970; None without a schedule."""
    interval = config.rotate_schedule_interval_ms
    if interval <= 0:
        return None
    zone = ZoneInfo(config.timezone)
    local = datetime.fromtimestamp(after / 1000, UTC).astimezone(zone)
    midnight = round(local.replace(hour=0, minute=0, second=0, microsecond=0).timestamp() * 1000)
    return midnight + ((after - midnight) // interval + 1) * interval


def is_due(partition: TopicPartition, config: S3SinkConfig, now: int) -> bool:
    """Return whether a scheduled rotation is due for the pending records."""
    due = find_next_rotation(partition.opened, config)
    return partition.count > 0 and due is not None and now >= due


def _add_record(before: Column, record: Column, config: S3SinkConfig) -> Column:
    """Add a record to the pending ones. Several rows of one record stay together."""
    from pyspark.sql import functions as F

    is_same = record[OFFSET] == before["last"]
    ends = before["count"] >= config.flush_size
    if config.rotate_interval_ms > 0:
        age = record[TIME] - before["base"]
        ends = ends | F.coalesce(age >= config.rotate_interval_ms, F.lit(False))
        ends = ends | (record[ENCODED] != before["encoded"])
    ends = (before["count"] > 0) & ~is_same & ends
    begins = ends | (before["count"] == 0)
    span = F.struct(before["start"].alias("start"), before["last"].alias("end"))
    one = F.lit(1).cast("bigint")
    by_time = config.rotate_interval_ms > 0
    return F.struct(
        F.when(ends, F.concat(before["done"], F.array(span))).otherwise(before["done"]).alias("done"),
        record[OFFSET].alias("last"),
        F.when(begins, record[OFFSET]).otherwise(before["start"]).alias("start"),
        F.when(begins, one).when(is_same, before["count"]).otherwise(before["count"] + one).alias("count"),
        (
            F.when(begins | before["base"].isNull(), record[TIME]).otherwise(before["base"])
            if by_time
            else before["base"]
        ).alias("base"),
        (record[ENCODED] if by_time else before["encoded"]).alias("encoded"),
    )
