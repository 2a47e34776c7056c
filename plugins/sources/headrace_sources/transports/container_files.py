"""Files that carry their schema, planned as few scans and read as one frame with one schema."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

from headrace.sdk import Events, Format, RejectReason, Scan, SourceContext, Subject, changes as C, events as E
from headrace.sdk.columns import quote_name
from headrace.sdk.schemas import convert_fitting, convert_type, find_spellings, union_schemas
from headrace_sources.transports.file_listing import group_by_offset_names
from headrace_sources.transports.file_places import place_columns

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType


@dataclass(frozen=True)
class ScanPlan:
    """Scan of a topic's files."""

    scan: Scan
    #: Whether the files' names contain the offset of their first record.
    has_offsets: bool
    #: Whether its types conflict with the other scans' types. Its records are then rejected.
    is_incompatible: bool = False


def open_container_files(
    file_format: Format, context: SourceContext, topic: str, files: Sequence[str], options: Mapping[str, str]
) -> Events | None:
    """Return a topic's events; None if its files have no records. ``options``: options of Spark's reader of the format."""
    from pyspark.sql import functions as F

    subject = Subject(topic, "value")
    scans = [
        (scan, has_offsets)
        for has_offsets, group in group_by_offset_names(files)
        for scan in merge_scans(
            [
                file_format.keep_table_types(scan, subject, context.schemas)
                for scan in file_format.scans(context.spark, group, options)
            ]
        )
    ]
    if not scans:
        return None
    may_reject = context.schemas.allows_conflicts(subject)
    schemas = {str(number): scan.schema for number, (scan, _) in enumerate(scans)}
    schema, incompatible = union_schemas(schemas, f"topic {topic}", aside=may_reject)
    plans = [
        ScanPlan(scan, has_offsets, is_incompatible=str(number) in incompatible)
        for number, (scan, has_offsets) in enumerate(scans)
    ]

    types = tuple(dict.fromkeys(name for scan, _ in scans if (name := scan.record_type)))

    def load(session: SparkSession, wanted: StructType) -> DataFrame:
        frames = [read_scan(file_format, session, plan, wanted, options) for plan in plans]
        if len(types) > 1:
            names = [F.lit(plan.scan.record_type).cast("string") for plan in plans]
            frames = [frame.withColumn(E.TYPE, name) for frame, name in zip(frames, names, strict=True)]
        return reduce(lambda a, b: a.unionByName(b, allowMissingColumns=True), frames)

    return Events(topic, schema, load, types=types)


def read_scan(
    file_format: Format, session: SparkSession, plan: ScanPlan, wanted: StructType, options: Mapping[str, str]
) -> DataFrame:
    """Return a scan's records as events of the ``wanted`` schema, or as rejected events."""
    from pyspark.sql import functions as F

    schema = plan.scan.schema if plan.is_incompatible else keep_fields(plan.scan.schema, wanted)
    frame = file_format.read(session, plan.scan, schema, options)
    record = F.struct(*[F.col(quote_name(name)) for name in schema.names])
    is_checked = C.ERROR in frame.columns
    convert = convert_fitting if plan.is_incompatible else convert_type
    reason, value = F.lit(None).cast("string"), convert(record, schema, wanted)
    if plan.is_incompatible:
        reason = F.lit(RejectReason.SCHEMA_INCOMPATIBLE)
    elif is_checked:
        reason = F.col(C.ERROR)
    if C.UNREADABLE in frame.columns:
        value = F.when(~F.col(C.UNREADABLE), value)
    places = place_columns(has_offsets=plan.has_offsets)
    columns = [value.alias(E.VALUE), reason.alias(E.ERROR), *places]
    if C.DETAIL in frame.columns:
        columns.append(F.col(C.DETAIL).alias(E.DETAIL))
    # A record of a container file has no bytes of its own. Dead letters get it as JSON, which is only computed for them.
    if is_checked or plan.is_incompatible:
        return frame.select(*columns, (F.col(C.RAW) if is_checked else _to_json(record)).alias(E.RAW))
    return frame.select(*columns).select("*", _to_json(F.col(E.VALUE)).alias(E.RAW))


def merge_scans(scans: Sequence[Scan]) -> list[Scan]:
    """Return fewer, larger scans: files whose common columns have equal types are read by one."""
    merged: list[Scan] = []
    for scan in scans:
        for i, other in enumerate(merged):
            both = other.merge(scan)
            if both is not None:
                merged[i] = both
                break
        else:
            merged.append(scan)
    return merged


def keep_fields(schema: StructType, wanted: StructType) -> StructType:
    """Return the fields of a schema that ``wanted`` also has, with the schema's own spelling of names."""
    from pyspark.sql.types import StructField, StructType

    fields, spellings = [], find_spellings(schema.names, wanted.names)
    for field in schema:
        if field.name in spellings:
            data_type, other = field.dataType, wanted[spellings[field.name]].dataType
            if isinstance(data_type, StructType) and isinstance(other, StructType):
                data_type = keep_fields(data_type, other)
            fields.append(StructField(field.name, data_type, nullable=True))
    return StructType(fields)


def _to_json(value: Column) -> Column:
    from pyspark.sql import functions as F

    return F.to_json(value).cast("binary")
