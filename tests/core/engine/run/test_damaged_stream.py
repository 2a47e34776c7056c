"""Damaged files of Spark's checkpoint: the error names the file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.support.orders import Orders
from tests.support.spark_conf import change_settings
from tests.support.tiers import nightly_after

from headrace import ConfigError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.one_spark]


@pytest.mark.parametrize(
    ("file", "text"),
    nightly_after(
        2,
        [
            ("metadata", "{"),
            ("offsets/0", "v1"),
            ("offsets/0", 'v1\n{"batchWatermarkMs":0}\n{"logOff'),
            ("commits/0", ""),
            ("sources/0/0", 'v1\n{"path":'),
            ("sources/0/0.compact", ""),
        ],
    ),
)
def test_error_names_the_file(file: str, text: str, spark: SparkSession, tmp_path: Path) -> None:
    orders = Orders(tmp_path / "orders", "native")
    orders.add(1)
    # By default, Spark replaces every tenth file of a source's log by one with all earlier entries.
    interval = {"spark.sql.streaming.fileSource.log.compactInterval": "1"} if file.endswith(".compact") else {}
    with change_settings(spark, interval):
        orders.pipeline().run(spark)
    stream = orders.checkpoint / "stream"
    for checksum in stream.rglob(".*.crc"):
        checksum.unlink()
    if file.startswith("sources"):  # Spark reads it only for a batch that is repeated.
        (stream / "commits/0").unlink()
    (stream / file).write_text(text)
    orders.add(2)
    with pytest.raises(ConfigError, match=f"{file}: is damaged\n  fix: restore it, or use a new checkpoint folder"):
        orders.pipeline().run(spark)
    assert not spark.streams.active
