"""Undecoded records (key, value, topic, partition, offset) → events, by the formats named beside the source."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING

from headrace.sdk import events as E
from headrace.sdk.events import Events
from headrace.sdk.positions import sortable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from headrace.sdk.format import Format
    from headrace.sdk.source import SourceContext


Records = Callable[["SparkSession"], "DataFrame"]


#: Topics whose schemas are found out at the same time: where they are new, each takes a few small jobs.
PARALLEL = 8


def decoded(
    context: SourceContext, topics: Mapping[str, Records], value: Format, key: Format | None, *, apart: bool = False
) -> list[Events]:
    """The events of each topic; ``topics`` has what reads its records in a session.

    ``apart``: a topic that cannot be read has an error, and the others their events; else it is raised.
    """
    with ThreadPoolExecutor(PARALLEL, thread_name_prefix="headrace-schema") as pool:
        read = _apart if apart else _events
        found = pool.map(lambda topic: read(context, topic, topics[topic], value, key), topics)
        return [events for events in found if events is not None]


def _apart(context: SourceContext, topic: str, records: Records, value: Format, key: Format | None) -> Events | None:
    try:
        return _events(context, topic, records, value, key)
    except Exception as error:  # noqa: BLE001 - its table raises it
        return Events.failed(topic, error)


def _events(context: SourceContext, topic: str, records: Records, value: Format, key: Format | None) -> Events | None:
    frame = records(context.spark)
    schema = value.schema(context.spark, frame, "value", f"{topic}-value", context.schemas)
    if not schema.fields:  # nothing but tombstones of a topic that was never seen before
        return None
    key_schema = key.schema(context.spark, frame, "key", f"{topic}-key", context.schemas) if key else None
    return Events(
        topic, schema, partial(_load, records=records, value=value, key=key, key_schema=key_schema), key_schema
    )


def _load(
    session: SparkSession,
    schema: StructType,
    *,
    records: Records,
    value: Format,
    key: Format | None,
    key_schema: StructType | None,
) -> DataFrame:
    from pyspark.sql import functions as F

    frame = records(session)
    headers = [F.col("headers").alias(E.HEADERS)] if "headers" in frame.columns else []  # with ids, sometimes
    frame = frame.select(
        *headers,
        F.col("value").alias(E.VALUE),
        *([F.col("key").alias(E.KEY)] if key else []),
        F.col("partition").cast("int").alias(E.PARTITION),
        F.col("offset").cast("bigint").alias(E.OFFSET),
        F.lit(None).cast("string").alias(E.FILE),
        sortable(F.col("offset")).alias(E.PLACE),
        F.col("value").cast("binary").alias(E.RAW),
        F.col("key").cast("binary").alias(E.RAW_KEY),
    )
    frame = value.decode(frame, E.VALUE, schema, E.ERROR)
    if key and key_schema:
        frame = key.decode(frame, E.KEY, key_schema, "_key_error")
        others = [c for c in frame.columns if c not in (E.ERROR, "_key_error")]
        frame = frame.select(*others, F.coalesce(E.ERROR, "_key_error").alias(E.ERROR))
    return frame
