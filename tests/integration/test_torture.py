"""Comparison of tables with a database under load, after repeated kills of the run."""

from __future__ import annotations

import random
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from benchmarks.torture import TABLES, Torture
from tests.support import pipelines

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# The test takes two minutes on two idle cores. `make torture` kills the run a hundred times.
pytestmark = [
    pytest.mark.slow,
    pytest.mark.spark,
    pytest.mark.dist,
    pytest.mark.one_spark,
    pytest.mark.timeout(1800),
]


@pytest.mark.nightly
def test_killed_twice(tmp_path: Path, spark: SparkSession) -> None:
    with ExitStack() as stack:
        torture = Torture(tmp_path / "work", stack, sinks=pipelines.TABLE_SINKS, metastore=False, rate=100)
        with torture.load():
            torture.kills(2, random.Random(8))
        torture.compare(spark)
    assert torture.result.kills == 2
    assert len(torture.result.compared) == len(TABLES) * len(pipelines.TABLE_SINKS)
    for table, (same, differ) in torture.result.compared.items():
        assert same > 0, table
        assert differ == 0, table
