"""Error for a topic with the changes of several tables."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as F

from headrace import DataError
from headrace.checkpoint.source_tables import SourceTables
from headrace.engine.read.other_tables import reject_other_tables
from headrace.sdk.changes import ERROR, Changes
from headrace.spark.storage import Folder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.one_spark]


def test_error_names_the_fields_by_which_the_tables_differ(spark: SparkSession, tmp_path: Path) -> None:
    long = f"orders\n{'x' * 3000}"
    source = "named_struct('db', 'shop', 'schema', {schema}, 'table', {table})"
    cases: list[tuple[list[str], str]] = [
        ([f"{source.format(schema='s', table='t')} AS source"], "`route.by.field: [source.schema, source.table]`"),
        ([f"{source.format(schema='null', table='t')} AS source"], "`route.by.field: source.table`"),
        (["'shop' AS __db", "t AS __table"], "`route.by.field: __table`"),
        (["s AS __source_db", "t AS __source_table"], "`route.by.field: [__source_db, __source_table]`"),
    ]
    rows = [("one", long), *[("two", long)] * 20]
    for columns, fix in cases:
        events = spark.createDataFrame(rows, "s string, t string").selectExpr("s", "t", *columns)
        changes = Changes(events.withColumn(ERROR, F.lit(None).cast("string")), envelope=True)
        tables = SourceTables(Folder(spark, str(tmp_path)))
        with pytest.raises(DataError) as raised:
            reject_other_tables(changes, "shop.all", F.concat_ws(".", "s", "t"), tables, is_ruled=False)
        assert fix in str(raised.value)
        assert long[:60] not in str(raised.value)
        assert len(str(raised.value)) < 800
