"""Settings of the caller's session that would change the meaning of headrace's plans."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.support import pipelines
from tests.support.bronze import write_lines
from tests.support.spark_conf import change_settings
from tests.support.tiers import nightly_after

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

#: Setting → a value that is not Spark's default.
SETTINGS = {
    "spark.sql.ansi.enabled": "true",
    "spark.sql.crossJoin.enabled": "false",
    "spark.sql.decimalOperations.allowPrecisionLoss": "false",
    "spark.sql.files.ignoreCorruptFiles": "true",
    "spark.sql.files.ignoreMissingFiles": "true",
    "spark.sql.json.enablePartialResults": "false",
    "spark.sql.jsonGenerator.ignoreNullFields": "false",
    "spark.sql.legacy.castComplexTypesToString.enabled": "true",
    "spark.sql.legacy.json.allowEmptyString.enabled": "true",
    "spark.sql.legacy.sizeOfNull": "false",
    "spark.sql.legacy.timeParserPolicy": "LEGACY",
    "spark.sql.parquet.binaryAsString": "true",
    "spark.sql.parquet.datetimeRebaseModeInRead": "EXCEPTION",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "LEGACY",
    "spark.sql.parquet.fieldId.write.enabled": "false",
    "spark.sql.parquet.int96AsTimestamp": "false",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MILLIS",
    "spark.sql.parquet.writeLegacyFormat": "true",
    "spark.sql.retainGroupColumns": "false",
    "spark.sql.parser.escapedStringLiterals": "true",
    "spark.sql.parser.quotedRegexColumnNames": "true",
    "spark.sql.sources.default": "orc",
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
    "spark.sql.sources.partitionOverwriteMode": "dynamic",
    "spark.sql.sources.useV1SourceList": "",
    "spark.sql.storeAssignmentPolicy": "LEGACY",
    "spark.sql.timestampType": "TIMESTAMP_NTZ",
    "spark.sql.variable.substitute": "true",
}
#: More columns than Iceberg keeps in a row of the position deletes, and values with characters of SQL.
WIDE = {f"c{i}": i for i in range(105)} | {"reference": "${x}", "pattern": "\\d"}


def event(op: str, number: int, lsn: int, name: str | None) -> dict[str, Any]:
    row = {"id": number, "name": name, **WIDE}
    source = {
        "connector": "postgresql",
        "db": "shop",
        "schema": "public",
        "table": "people",
        "lsn": lsn,
        "sequence": None,
    }
    images = {"before": row, "after": None} if op == "d" else {"before": None, "after": row}
    return {**images, "op": op, "ts_ms": 1_700_000_000_000, "source": source}


@pytest.mark.parametrize("settings", nightly_after(1, [SETTINGS, *({key: value} for key, value in SETTINGS.items())]))
@pytest.mark.parametrize("sink", nightly_after(1, pipelines.TABLE_SINKS))
def test_tables_are_equal_under_any_setting(
    sink: str, settings: dict[str, str], spark: SparkSession, tmp_path: Path
) -> None:
    folder = tmp_path / "in/shop.people/partition=0"
    source = {"files": {"path": str(tmp_path / "in"), "format": "json"}}
    tables = [{"source": "shop.people", "key": ["id"], "target": "shop.people"}]
    pipeline = pipelines.pipeline(tmp_path, sink, source=source, tables=tables)
    batches = [
        [event("c", 1, 10, "Arp"), event("c", 2, 11, "Klee"), event("c", 3, 12, None), {"op": "c"}],
        [event("u", 1, 20, "Hans Arp"), event("d", 2, 21, None), event("u", 3, 9, "late")],
        [event("u", 1, 15, "late"), event("c", 4, 30, "Höch")],
    ]
    with change_settings(spark, settings):
        for number, events in enumerate(batches):
            write_lines(folder / f"shop.people+0+{number:010d}.json", events)
            pipeline.run(spark)
    found = pipelines.rows(pipeline, spark, "shop.people", key="id")
    expected = [(1, "Hans Arp"), (3, None), (4, "Höch")]
    assert found == [{"id": number, "name": name, **WIDE} for number, name in expected]
    dead_letters = pipeline.read_dead_letters(spark)
    assert dead_letters is not None
    assert [row["reason"] for row in dead_letters.collect()] == ["after-missing"]
