"""Pipelines of docs/tutorial-views.md on real servers: after each step, a view equals Spark's result over the stored tables."""

from __future__ import annotations

import json
import re
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from tests.support import databases, pipelines
from tests.support.pages import find_block

from headrace import Pipeline
from headrace_stack import Postgres
from headrace_stack.servers.kafka import Kafka, Record

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.nightly, pytest.mark.spark, pytest.mark.dist, pytest.mark.slow, pytest.mark.one_spark]

PAGE = "docs/tutorial-views.md"


def load_config(name: str, folder: Path, kafka: Kafka | None = None) -> dict[str, Any]:
    """Return a pipeline file of the page with the addresses of the test."""
    config: dict[str, Any] = yaml.safe_load(find_block(PAGE, "yaml", f"name: {name}"))
    config["checkpoint"] = str(folder / "checkpoint")
    for sink in config.pop("sinks", None) or [config.pop("sink")]:
        (kind,) = sink
        changed = {"bootstrap.servers": kafka.bootstrap_servers} if kafka and kind == "kafka" else {}
        where = pipelines.sink_block(kind, folder)[kind] if kind != "kafka" else {}
        config.setdefault("sinks", []).append({kind: {**sink[kind], **where, **changed}})
    if kafka:
        config["source"]["kafka"]["bootstrap.servers"] = kafka.bootstrap_servers
    return config


def recompute(pipeline: Pipeline, spark: SparkSession, config: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the result of the view's SQL over the stored tables, in the order of the key."""
    (view,) = config["views"]
    sql = view["sql"]
    for number, table in enumerate(sorted(set(re.findall(r"(?:FROM|JOIN) (\w+\.\w+)", sql)))):
        pipeline.read(table, spark=spark).createOrReplaceTempView(f"base_{number}")
        sql = re.sub(rf"(FROM|JOIN) {re.escape(table)}\b", rf"\1 base_{number}", sql)
    return sort_rows(spark.sql(sql), view["key"])


def sort_rows(frame: DataFrame, key: str | list[str]) -> list[dict[str, Any]]:
    names = [key] if isinstance(key, str) else key
    return [row.asDict() for row in frame.orderBy(*names).collect()]


def encode(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def test_running_totals_are_in_a_topic(tmp_path: Path, spark: SparkSession, kafka: Kafka) -> None:
    def produce(topic: str, *rows: dict[str, Any]) -> None:
        kafka.produce(topic, *(Record(encode(row)) for row in rows))

    def purchase(id_: int, product: str, quantity: int, total: str) -> dict[str, Any]:
        return {"transaction_id": id_, "product_id": product, "quantity": quantity, "total_purchase": total}

    def read_totals() -> dict[str, dict[str, Any] | None]:
        last = {record.key: record.value for record in kafka.read("totals")}
        return {json.loads(key or b"")["product_id"]: json.loads(value or b"null") for key, value in last.items()}

    for topic in ("purchases", "products", "totals"):
        kafka.create_topic(topic)
    pipeline = Pipeline.from_dict(load_config("running-totals", tmp_path, kafka))
    produce("products", {"product_id": "SF07", "category": "Superfoods Smoothies"})
    produce("purchases", purchase(1, "SF07", 1, "7.98"), purchase(2, "SC01", 2, "15.96"))
    pipeline.run(spark)
    totals = {"product_id": "SF07", "category": "Superfoods Smoothies"}
    assert read_totals() == {"SF07": {**totals, "purchases": 1, "quantity": 1, "total": 7.98}}

    # A product that arrives after its purchase, a new purchase, and one that is repeated.
    produce("products", {"product_id": "SC01", "category": "Superfoods Smoothies"})
    produce("purchases", purchase(3, "SF07", 2, "15.96"), purchase(1, "SF07", 1, "7.98"))
    pipeline.run(spark)
    found = read_totals()
    key, value = find_block(PAGE, "", "SF07").strip().split("  ")
    assert found["SF07"] == json.loads(value) == {**totals, "purchases": 2, "quantity": 3, "total": 23.94}
    assert json.loads(key) == {"product_id": "SF07"}
    assert found["SC01"] == {**totals, "product_id": "SC01", "purchases": 1, "quantity": 2, "total": 15.96}

    # A purchase that is corrected to another product: the first one has no purchase left.
    produce("purchases", purchase(2, "SF07", 2, "15.96"))
    pipeline.run(spark)
    assert read_totals() == {"SF07": {**totals, "purchases": 3, "quantity": 5, "total": 39.9}, "SC01": None}


def test_sales_by_region_follow_seven_tables(tmp_path: Path, spark: SparkSession, postgres: Postgres) -> None:
    postgres.execute("create database tickit")
    with closing(postgres.connect("tickit")) as connection:
        connection.run(databases.TICKIT)
        connection.run("update tickit.users set state = (array['CA', 'NY', 'TX', 'WA'])[userid % 4 + 1]")
        connection.run("update tickit.category set catname = 'Category ' || catid")
        config = load_config("tickit", tmp_path)
        config["source"]["jdbc"] |= {
            "connection.url": f"jdbc:postgresql://{postgres.host}:{postgres.port}/tickit",
            "connection.user": postgres.user,
            "connection.password": postgres.password,
        }
        pipeline = Pipeline.from_dict(config)

        def read_view() -> list[dict[str, Any]]:
            rows = sort_rows(pipeline.read("reports.sales_by_region", spark=spark), ["region", "category"])
            assert rows == recompute(pipeline, spark, config)
            return rows

        pipeline.run(spark)
        rows = read_view()
        assert len(rows) == 15
        assert sum(row["tickets"] for row in rows) == 400
        assert [sum(row["revenue"] for row in rows)] == list(*connection.run("select sum(pricepaid) from tickit.sales"))
        # A buyer moves to another region, a category has another name, sales are deleted, and an event has another venue.
        for change in (
            "update tickit.users set state = 'WA' where userid = 2",
            "update tickit.category set catname = 'Musicals' where catid = 3",
            "delete from tickit.sales where salesid % 7 = 0",
            "update tickit.event set venueid = 1 where catid = 1",
        ):
            connection.run(change)
        pipeline.run(spark)
        changed = read_view()
        assert len(changed) == 15
        assert {row["category"] for row in changed} == {f"Category {number}" for number in (1, 2, 4, 5)} | {"Musicals"}
        assert sum(row["tickets"] for row in changed) == 400 - 400 // 7


# Hudi does not support Spark 4.
if pipelines.HAS_HUDI:

    def test_three_streams_are_one_hudi_table(tmp_path: Path, spark: SparkSession, kafka: Kafka) -> None:
        number = iter(range(1, 1000))

        def produce(table: str, op: str, row: dict[str, Any], before: dict[str, Any] | None = None) -> None:
            lsn = next(number)
            images = {"before": row, "after": None} if op == "d" else {"before": before, "after": row}
            source = {
                "connector": "postgresql",
                "ts_ms": 1_700_000_000_000 + lsn,
                "lsn": lsn,
                "sequence": f'["{lsn}","{lsn}"]',
            }
            event = Record(encode({**images, "source": source, "op": op}), key=encode({"id": row["id"]}))
            kafka.produce(f"shop.public.{table}", event)

        def read_view() -> dict[int, tuple[Any, ...]]:
            rows = sort_rows(pipeline.read("shop.order_summary", spark=spark), "order_id")
            assert rows == recompute(pipeline, spark, config)
            names = ("customer", "segment", "status", "line_count", "amount")
            return {row["order_id"]: tuple(row[name] for name in names) for row in rows}

        def list_partitions() -> set[str]:
            files = (tmp_path / "lake").rglob("order_summary/*/*.parquet")
            return {path.parent.name for path in files}

        config = load_config("orders", tmp_path, kafka)
        pipeline = Pipeline.from_dict(config)
        ann, ben = ({"id": id_, "name": name, "segment": "retail"} for id_, name in ((1, "Ann"), (2, "Ben")))
        produce("customers", "c", ann)
        # Orders that arrive before their customer, and lines that arrive before their order.
        produce("lines", "c", {"id": 1, "order_id": 11, "amount": 5})
        produce("orders", "c", {"id": 10, "customer_id": 1, "status": "new"})
        produce("orders", "c", {"id": 12, "customer_id": 2, "status": "new"})
        pipeline.run(spark)
        assert read_view() == {10: ("Ann", "retail", "new", 0, 0)}
        produce("orders", "c", {"id": 11, "customer_id": 1, "status": "new"})
        produce("lines", "c", {"id": 2, "order_id": 12, "amount": 7})
        produce("customers", "c", ben)
        pipeline.run(spark)
        expected = {
            10: ("Ann", "retail", "new", 0, 0),
            11: ("Ann", "retail", "new", 1, 5),
            12: ("Ben", "retail", "new", 1, 7),
        }
        assert read_view() == expected
        assert list_partitions() == {"retail"}
        # A customer gets another segment, a line moves to another order, and a customer is deleted.
        produce("customers", "u", {**ann, "segment": "wholesale"}, before=ann)
        produce("lines", "u", {"id": 1, "order_id": 10, "amount": 6}, before={"id": 1, "order_id": 11, "amount": 5})
        produce("customers", "d", ben)
        pipeline.run(spark)
        assert read_view() == {10: ("Ann", "wholesale", "new", 1, 6), 11: ("Ann", "wholesale", "new", 0, 0)}
        assert list_partitions() == {"retail", "wholesale"}
