"""Rows in the columns and types that Hudi's writer requires."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from headrace.sdk import Batch
from headrace.sdk.changes import DELETED, POSITION
from headrace.sdk.columns import quote_name
from headrace.sdk.schemas import check_names, project, widen_small_ints
from headrace_sinks.hudi import hudi_schema
from headrace_sinks.hudi.record_keys import make_record_key_optional
from headrace_sinks.stored_types import spell_as_stored, union_by_name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

#: Hudi's column that marks a delete.
IS_DELETED = "_hoodie_is_deleted"


def to_hudi_rows(rows: DataFrame, batch: Batch, stored: StructType | None, fixed: Collection[str]) -> DataFrame:
    """Convert rows for Hudi's writer: its delete marker, no small integers, and the columns and types of the table.

    ``fixed``: key and partition columns, whose values Hudi stores as strings.
    Hudi's writers disagree about small integers, and Hudi alone would change a column to any incoming type.
    """
    check_names(rows.schema, "Hudi")
    rows = hudi_schema.hide_members(rows)
    rows = rows.withColumnRenamed(DELETED, IS_DELETED) if batch.mode == "upsert" else rows.drop(DELETED)
    if stored is None:
        return make_nullable(project(rows, widen_small_ints(rows.schema)))
    rows = spell_as_stored(rows, stored)
    can_widen = partial(hudi_schema.can_widen, fixed=fixed)
    stored = make_record_key_optional(stored)
    return project(rows, union_by_name(stored, widen_small_ints(rows.schema), can_widen))


def drop_deleted(rows: DataFrame, batch: Batch) -> DataFrame:
    """Return the rows without deletes, for a new table."""
    return rows.where(f"NOT {IS_DELETED}") if batch.mode == "upsert" else rows


def add_positions(stored: DataFrame) -> DataFrame:
    """Return a table's rows with a position. Rows of another writer have an empty position, which is older than each event."""
    from pyspark.sql import functions as F

    return stored if POSITION in stored.columns else stored.withColumn(POSITION, F.lit(""))


def make_nullable(rows: DataFrame) -> DataFrame:
    """Return rows whose columns and fields are all optional, because deletes have only a key. A literal column is not optional."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import StructType

    jvm: Any = rows.sparkSession._jvm  # noqa: SLF001
    nullable = jvm.org.apache.spark.sql.types.DataType.fromJson(rows.schema.json()).asNullable()
    schema = StructType.fromJson(json.loads(nullable.json()))
    # A condition without an alternative is optional, and the cast makes fields optional.
    changed = {
        field.name: F.when(F.lit(True), F.col(quote_name(field.name)).cast(field.dataType))
        for field, old in zip(schema, rows.schema, strict=True)
        if field != old
    }
    return rows.withColumns(changed) if changed else rows


@contextmanager
def cache(rows: DataFrame) -> Iterator[DataFrame]:
    """Yield the rows, cached until the end of the block."""
    cached = rows.persist()
    try:
        cached.count()
        yield cached
    finally:
        cached.unpersist()
