"""Hudi and Delta tables as sources: copies in Iceberg equal the tables after each batch."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.support import pipelines
from tests.support.lake_source import EAGER, SilverCatalog, copy_tables, read_copy

from headrace import HeadraceError, Pipeline

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
FORMATS = ["delta", *(["hudi"] if pipelines.HAS_HUDI else [])]


@pytest.mark.parametrize("kind", FORMATS)
def test_copies_equal_the_table_after_each_batch(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    events = SilverCatalog(spark, tmp_path)
    events.create()
    events.sql(
        "insert into {t}.orders values (1, 'one', timestamp '2026-02-28 12:30:00.123456', map('a', 1)), (2, 'two', null, null)"
    )
    rules = [{"source": "silver.orders", "key": ["id"], "target": "silver.orders"}]
    writer = events.copy(tmp_path / "writer", kind, tables=rules, name="writer")
    options: dict[str, Any] = {"path": f"{tmp_path}/writer/lake/{kind}", "tables": ["silver.*"], **EAGER}
    copy = copy_tables(tmp_path / "copy", {kind: options})

    def run() -> int:
        writer.run(spark)
        summary = copy.run(spark)
        assert read_copy(copy, spark) == events.rows()
        return sum(table.applied or 0 for table in summary.tables)

    assert run() == 2
    events.sql(
        "update {t}.orders set at = timestamp '2026-02-28 12:30:00.123457' where id = 1",
        "delete from {t}.orders where id = 2",
        "insert into {t}.orders values (3, 'three', null, map('b', 2))",
    )
    assert run() == 3
    assert [step.error for step in writer.maintain(spark=spark) if step.error] == []
    assert run() == 0
    events.sql(
        "alter table {t}.orders add column city string", "insert into {t}.orders values (4, 'four', null, null, 'Brno')"
    )
    assert run() == 1
    events.sql("insert overwrite {t}.orders values (5, 'five', null, null, null)")
    assert run() == 4
    _check_errors(spark, tmp_path, kind, options)


def _check_errors(spark: SparkSession, folder: Path, kind: str, options: dict[str, Any]) -> None:
    def fail(pipeline: Pipeline) -> str:
        with pytest.raises(HeadraceError) as error:
            pipeline.run(spark)
        assert error.value.fix
        return str(error.value)

    text = fail(copy_tables(folder / "wrong", {kind: {**options, "tables": "silver.order"}}))
    assert f"source {kind}, tables: there is no table 'silver.order'" in text
    assert "did you mean 'silver.orders'" in text
    same = [{kind: {"path": options["path"]}}]
    rules = [{"source": "silver.orders", "key": ["id"]}]
    assert "without an end" in fail(copy_tables(folder / "wrong", {kind: options}, sinks=same, tables=rules))
