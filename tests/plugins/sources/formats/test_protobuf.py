"""Rejection of the Protobuf format with a reason."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.support import pipelines

from headrace import ConfigError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.spark
def test_protobuf_is_rejected(tmp_path: Path, spark: SparkSession) -> None:
    kafka = {"bootstrap.servers": "broker:9092", "subscribe": "orders"}
    pipeline = pipelines.pipeline(tmp_path, source={"kafka": kafka, "value": {"protobuf": {}}}, tables=[])
    with pytest.raises(ConfigError, match="Protobuf is not supported") as caught:
        pipeline.run(spark)
    assert "use Avro or JSON in the connector" in str(caught.value)
    assert list(tmp_path.iterdir()) == []
