"""Removal of the bytes of records that were decoded, in pipelines with masks."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from headrace.sdk import events as E
from headrace.sdk.changes import HEADERS, KEY, RAW, RAW_KEY, Changes
from headrace.sdk.reject_reason import RejectReason
from headrace.spark.columns import any_of, has_any_field

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def drop_decoded_bytes(frame: DataFrame) -> DataFrame:
    """Remove bytes and key of records that were decoded at least in part, from an events frame.

    Their headers stay until ``drop_decoded_headers``, because transforms read them: a pass that reads dead letters must reject the
    same records as the pass that reads rows.
    """
    from pyspark.sql import functions as F

    # A record of an incompatible schema was decoded, even if none of its columns fits.
    error = F.col(E.ERROR)
    is_raw = error.isNotNull() & (error != RejectReason.SCHEMA_INCOMPATIBLE) & ~has_any_field(frame, E.VALUE)
    names = [name for name in (E.RAW, E.RAW_KEY) if name in frame.columns]
    return frame.withColumns({name: F.when(is_raw, F.col(name)) for name in names})


def drop_decoded_headers(changes: Changes) -> Changes:
    """Remove the headers of records without bytes, which ``drop_decoded_bytes`` removed."""
    from pyspark.sql import functions as F

    names = [name for name in (RAW, RAW_KEY) if name in changes.frame.columns]
    if HEADERS not in changes.frame.columns:
        return changes
    is_raw = any_of(F.col(name).isNotNull() for name in names)
    return replace(changes, frame=changes.frame.withColumn(HEADERS, F.when(is_raw, F.col(HEADERS))))


def drop_decoded_keys(changes: Changes) -> Changes:
    """Remove the bytes and the headers of records whose key was decoded at least in part."""
    from pyspark.sql import functions as F

    is_raw = ~has_any_field(changes.frame, KEY)
    names = [name for name in (RAW_KEY, HEADERS) if name in changes.frame.columns]
    return replace(changes, frame=changes.frame.withColumns({name: F.when(is_raw, F.col(name)) for name in names}))
