"""Upgrade: this version continues the checkpoint and the tables of earlier releases."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.support import release_state as state
from tests.support.pipelines import TABLE, rows

from headrace import Pipeline

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Hudi's tables need Spark 3.5, which wrote them.
pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.one_spark]


@pytest.fixture(params=sorted(state.STATES.glob("*.tar.xz")), ids=lambda file: file.name.removesuffix(".tar.xz"))
def folder(request: pytest.FixtureRequest) -> Iterator[Path]:
    """Unpack the state of a release."""
    with state.hold_folder() as folder:
        with tarfile.open(request.param) as archive:
            archive.extractall(folder, filter="data")
        yield folder


def test_checkpoint_and_tables_of_a_release_are_continued(folder: Path, spark: SparkSession) -> None:
    written = json.loads((folder / "checkpoint/headrace.json").read_text(encoding="utf-8"))
    job = Pipeline.from_file(state.FILE)
    assert [batch.batch for batch in job.history()] == [0, 1]
    assert job.run(spark).batches == 0, "no record is read again"
    added = state.add_changes()
    summary = job.run(spark)
    assert (summary.batches, job.history()[-1].batch) == (1, 2)
    for table in summary.tables:
        # Hudi does not count late changes.
        late = None if table.sink == "hudi" else 2
        assert (table.table, table.rows_in, table.late) == (TABLE, added, late), table.sink
    for sink in state.SINKS:
        assert rows(job, spark, sink=sink) == state.ROWS, sink
    assert json.loads((folder / "checkpoint/headrace.json").read_text(encoding="utf-8")) == written
