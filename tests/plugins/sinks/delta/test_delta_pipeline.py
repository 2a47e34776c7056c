from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.support import pipelines
from tests.support.bronze import Bronze

from headrace.runtime.session.session_builder import merge_session_conf
from headrace.runtime.session.session_check import list_missing_conf
from headrace_sinks import DeltaSink, HudiSink, IcebergSink

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXTENSION = "io.delta.sql.DeltaSparkSessionExtension"


def test_three_table_formats_share_a_session() -> None:
    iceberg = IcebergSink({"catalog": "spark_catalog", "catalog.properties": {"type": "hive"}})
    conf = merge_session_conf([iceberg, HudiSink(path="lake/hudi"), DeltaSink(path="lake/delta")])
    assert conf["spark.sql.extensions"] == EXTENSION
    assert conf["spark.sql.catalog.spark_catalog"] == "org.apache.iceberg.spark.SparkSessionCatalog"


def test_session_without_the_extension_is_rejected() -> None:
    settings = {"spark.sql.extensions": "org.acme.Extension"}
    assert list_missing_conf([DeltaSink(path="lake")], settings.get) == [
        f'.config("spark.sql.extensions", "org.acme.Extension,{EXTENSION}")'
    ]
    assert list_missing_conf([DeltaSink(path="lake")], {"spark.sql.extensions": EXTENSION}.get) == []


@pytest.mark.nightly
@pytest.mark.spark
def test_pipeline_fills_iceberg_and_delta_alike(tmp_path: Path, spark: SparkSession) -> None:
    bronze = Bronze(tmp_path / "bronze")
    artists = bronze.topic(pipelines.TOPIC, key="artist_id", columns=pipelines.COLUMNS)
    row = {"artist_id": 1, "name": "Arp", "nationality": "French"}
    others = [{**row, "artist_id": number} for number in range(2, 9)]  # a file has more than one row
    for inserted in (row, *others):
        artists.insert(inserted)
    bronze.flush()
    pipeline = pipelines.pipeline(tmp_path, "delta", "iceberg")
    assert not [item for item in pipeline.check(spark) if item.error]
    pipeline.run(spark)
    artists.update(row, {**row, "name": "Hans Arp"})
    for deleted in others[:4]:
        artists.delete(deleted)
    bronze.flush()
    pipeline.run(spark)
    expected = [{**row, "name": "Hans Arp"}, *others[4:]]
    for sink in ("delta", "iceberg"):
        assert pipelines.rows(pipeline, spark, sink=sink) == expected
    (before,) = [item for item in pipeline.measure(spark) if item.sink == "delta"]
    assert (before.size.rows, before.size.versions) == (4, 2)
    assert pipelines.rows(pipeline, spark, sink="delta", as_of="0") == [row, *others]
    steps = list(pipeline.maintain(spark=spark))
    assert not [step for step in steps if step.error]
    assert ("delta", "compact") in {(step.sink, step.step) for step in steps}
    assert pipelines.rows(pipeline, spark, sink="delta") == expected
