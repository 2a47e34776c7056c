"""Removal of the bytes of records that were decoded, in pipelines with masks."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from headrace.sdk import events as E
from headrace.sdk.changes import HEADERS, KEY, RAW_KEY, Changes
from headrace.sdk.reject_reason import RejectReason
from headrace.spark.columns import has_any_field

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def drop_decoded_bytes(frame: DataFrame) -> DataFrame:
    """Remove bytes, key and headers of records that were decoded at least in part, from an events frame."""
    from pyspark.sql import functions as F

    # A record of an incompatible schema was decoded, even if none of its columns fits.
    error = F.col(E.ERROR)
    is_raw = error.isNotNull() & (error != RejectReason.SCHEMA_INCOMPATIBLE) & ~has_any_field(frame, E.VALUE)
    names = [name for name in (E.RAW, E.RAW_KEY, E.HEADERS) if name in frame.columns]
    return frame.withColumns({name: F.when(is_raw, F.col(name)) for name in names})


def drop_decoded_keys(changes: Changes) -> Changes:
    """Remove the bytes and the headers of records whose key was decoded at least in part."""
    from pyspark.sql import functions as F

    is_raw = ~has_any_field(changes.frame, KEY)
    names = [name for name in (RAW_KEY, HEADERS) if name in changes.frame.columns]
    return replace(changes, frame=changes.frame.withColumns({name: F.when(is_raw, F.col(name)) for name in names}))
