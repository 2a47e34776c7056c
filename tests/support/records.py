"""Broker records in Spark's Kafka columns, and their conversion into changes without the engine."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace.engine.read.record_decoder import RecordDecoder, Records
from headrace.sdk.changes import Changes
from headrace.sdk.dialect import Dialect
from headrace.sdk.events import drop_tombstones
from headrace.sdk.format import Format
from headrace.sdk.positions import position
from headrace.sdk.schema_log import SchemaLog
from headrace.sdk.source import SourceContext
from headrace.spark.sessions import move_to_session
from headrace_sources.dialects.debezium import DebeziumDialect
from headrace_sources.dialects.log_positions import find_connector, read_log_position
from headrace_sources.formats.json.json_format import JsonFormat

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

Record = Mapping[str, Any]

_SAMPLES = Path(__file__).parents[1] / "data" / "debezium"
_KAFKA = "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp"


def samples(name: str) -> list[dict[str, Any]]:
    """Return the records of a file in tests/data/debezium: topic, offset, key, value."""
    return [json.loads(line) for line in (_SAMPLES / f"{name}.jsonl").read_text().splitlines()]


def record(value: Any, *, key: Any = None, topic: str = "moma.public.artists", offset: int = 0) -> dict[str, Any]:
    """Return a record. ``value`` and ``key`` are bytes, or objects to encode as JSON."""
    return {"topic": topic, "offset": offset, "key": key, "value": value}


def make_kafka_frame(spark: SparkSession, records: Iterable[Record]) -> DataFrame:
    """Return records in the format of Spark's Kafka source."""
    rows = [
        (_bytes(r["key"]), _bytes(r["value"]), r["topic"], r.get("partition", 0), r["offset"], None) for r in records
    ]
    return spark.createDataFrame(rows, _KAFKA)


def make_topic_readers(spark: SparkSession, records: Iterable[Record]) -> dict[str, Records]:
    """Return the reader of the records of each topic."""
    topics: dict[str, list[Record]] = {}
    for found in records:
        topics.setdefault(str(found["topic"]), []).append(found)
    return {topic: partial(move_to_session, make_kafka_frame(spark, topics[topic])) for topic in sorted(topics)}


def make_changes(
    spark: SparkSession,
    records: Iterable[Record],
    *,
    dialect: Dialect | None = None,
    value_format: Format | None = None,
    keyed: bool = True,
    key: Collection[str] = (),
    with_row_before: bool = True,
    tombstones: bool = False,
) -> dict[str, Changes]:
    """Return the changes of each topic.

    ``value_format``: JSON by default; ``keyed``: read the keys of the records; ``key``: key columns of a rule; ``tombstones``: keep tombstones.
    """
    dialect = dialect or DebeziumDialect()
    context = SourceContext(spark, SchemaLog())
    found = {}
    decoder = RecordDecoder(
        value_format or JsonFormat(), JsonFormat() if keyed else None, key_columns=lambda topic: key
    )
    for events in decoder.decode(context, make_topic_readers(spark, records)):
        schema = dialect.read_schema(events.schema, key=key, with_row_before=with_row_before)
        frame = events.load(spark, schema)
        if not tombstones and dialect.position_parts(events) is not None:
            frame = drop_tombstones(frame)
        found[events.topic.rsplit(".", 1)[-1]] = dialect.changes(events, frame, key)
    return found


def source_position(fields: Collection[str], source_field: Callable[[str], Column], place: Column) -> Column:
    """Return the position of an event whose source block has ``fields``."""
    from pyspark.sql import functions as F

    parts, _ = read_log_position(find_connector(fields), fields, source_field, F.lit(True))
    return position(*parts, place=place)


def rows_of(changes: Changes, *columns: str) -> list[dict[str, Any]]:
    """Return rows in record order: the columns of the event, or the named ones."""
    from pyspark.sql import functions as F

    from headrace.sdk.changes import OFFSET
    from headrace.spark.columns import quote_name

    frame = changes.frame.orderBy(F.col(OFFSET)).select(*map(quote_name, columns or changes.event_columns))
    return [row.asDict(recursive=True) for row in frame.collect()]


def _bytes(value: Any) -> bytes | None:
    return value if value is None or isinstance(value, bytes) else json.dumps(value).encode()
