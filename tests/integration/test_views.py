"""Views of the page docs/views.md in Iceberg, with the commands for tables."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.support.pages import find_block
from tests.support.pipelines import rows
from tests.support.shop import Shop

from headrace import Pipeline

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.one_spark]

VIEW = "shop.customer_totals"


@pytest.mark.nightly
def test_example_of_the_page(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "shop.yaml"
    # Relative paths belong to the folder in which Spark started.
    text = find_block("docs/views.md", "yaml", "checkpoint:")
    file.write_text(text.replace("landing/", f"{tmp_path}/landing/").replace("lake/", f"{tmp_path}/lake/"))
    pipeline, shop = Pipeline.from_file(file), Shop(spark, tmp_path)
    shop.customers.snapshot({"id": 1, "region": "north"})
    shop.orders.snapshot({"id": 10, "customer_id": 1, "amount": 5})
    shop.orders.snapshot({"id": 11, "customer_id": 1, "amount": 7})
    shop.bronze.flush()
    found = {item.what: item.found for item in pipeline.check(spark)}
    tables = "from shop.orders, shop.customers"
    assert found[f"view {VIEW}"] == f"key customer_id, columns customer_id, region, orders, total, {tables}"
    pipeline.run(spark)
    assert rows(pipeline, spark, VIEW, "customer_id") == [
        {"customer_id": 1, "region": "north", "orders": 2, "total": 12}
    ]
    shop.orders.delete({"id": 11, "customer_id": 1, "amount": 7})
    shop.bronze.flush()
    summary = pipeline.run(spark)
    assert {table.table: table.applied for table in summary.tables} == {"shop.orders": 1, VIEW: 1}
    assert rows(pipeline, spark, VIEW, "customer_id") == [
        {"customer_id": 1, "region": "north", "orders": 1, "total": 5}
    ]
    assert VIEW in {measured.table for measured in pipeline.measure(spark)}
    assert VIEW in {table.table for table in pipeline.status(spark).tables}
    assert [done.error for done in pipeline.maintain([VIEW], spark=spark) if done.error] == []


def test_check_finds_columns_that_tables_lack(spark: SparkSession, tmp_path: Path) -> None:
    wrong = {"name": "shop.a", "key": "id", "sql": "SELECT id, amuont FROM shop.orders"}
    keyless = {"name": "shop.b", "key": "number", "sql": "SELECT * FROM shop.orders"}
    waits = {"name": "shop.c", "key": "id", "sql": "SELECT id FROM shop.customers"}
    shop = Shop(spark, tmp_path, wrong, keyless, waits)
    shop.orders.snapshot({"id": 10, "customer_id": 1, "amount": 5})
    shop.bronze.flush()
    items = shop.pipeline().check(spark)
    errors = {item.what: item.error for item in items if item.error}
    assert "amuont" in str(errors["view shop.a"])
    assert "its result has no column 'number'" in str(errors["view shop.b"])
    warnings = [item.found for item in items if item.what == "warning"]
    assert any("view shop.c reads the table 'shop.customers', which no topic becomes yet" in text for text in warnings)


@pytest.mark.nightly
def test_types_that_widen_with_the_batch(spark: SparkSession, tmp_path: Path) -> None:
    """The new key does not fit the old type of the key, and the texts of stored values change with their type."""
    views = [
        {"name": "shop.names", "key": "name", "sql": "SELECT name, COUNT(*) AS n FROM shop.t GROUP BY name"},
        {"name": "shop.texts", "key": "id", "sql": "SELECT id, CONCAT('x', v) AS v FROM shop.t"},
    ]
    landing = tmp_path / "landing" / "t"
    landing.mkdir(parents=True)

    def run(number: int, row: dict[str, object], **columns: str) -> Pipeline:
        (landing / f"{number}.json").write_text(
            json.dumps({"op": "c", "before": None, "after": row, "source": {"lsn": number}, "ts_ms": number})
        )
        pipeline = Pipeline.from_dict(
            {
                "name": "widen",
                "source": {"files": {"path": str(tmp_path / "landing"), "format": "json"}},
                "tables": [{"source": "t", "target": "shop.t", "key": ["id"], "columns": columns}],
                "transforms": [{"unwrap": {}}],
                "views": views,
                "sink": {"iceberg": {"warehouse": str(tmp_path / "lake")}},
                "checkpoint": str(tmp_path / "checkpoint"),
            }
        )
        pipeline.run(spark)
        return pipeline

    run(1, {"id": 1, "name": "a", "v": 0.1}, id="int", name="string", v="float")
    pipeline = run(2, {"id": 3_000_000_000, "name": "b", "v": 0.5}, id="bigint", name="string", v="double")
    assert [row["name"] for row in rows(pipeline, spark, "shop.names", "name")] == ["a", "b"]
    stored = {row["id"]: f"x{row['v']}" for row in rows(pipeline, spark, "shop.t", "id")}
    assert {row["id"]: row["v"] for row in rows(pipeline, spark, "shop.texts", "id")} == stored
