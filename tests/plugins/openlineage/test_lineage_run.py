"""Lineage and traces of a real run: topics, masked and renamed columns, views, and the places of tables."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from headrace_openlineage.openlineage_observer import OpenLineage
from tests.plugins.openlineage.conftest import Read
from tests.plugins.openlineage.specification import check_event
from tests.plugins.otel.doubles import OtelInMemory
from tests.support.shop import CUSTOMERS, ORDERS, TOTALS, Shop

from headrace_transforms import Compute, Drop, Filter, Mask, Rename, Unwrap

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.one_spark]

VIEW = {**TOTALS, "sql": str(TOTALS["sql"]).replace("c.region", "c.area")}


def find(events: list[dict[str, Any]], table: str, state: str = "COMPLETE") -> dict[str, Any]:
    (found,) = [event for event in events if event["job"]["name"] == f"shop.{table}" and event["eventType"] == state]
    return found


def describe(event: dict[str, Any]) -> dict[str, list[str]]:
    """Return column → its sources: ``~`` for a changed value, ``#`` for a masked one."""
    fields = event["outputs"][0]["facets"]["columnLineage"]["fields"]
    return {
        column: [
            ("#" if use["masking"] else "" if use["subtype"] == "IDENTITY" else "~") + source["field"]
            for source in about["inputFields"]
            for use in source["transformations"]
        ]
        for column, about in fields.items()
    }


def test_lineage_and_traces_of_a_run(spark: SparkSession, tmp_path: Path, read_events: Read) -> None:
    shop, otel = Shop(spark, tmp_path / "shop", VIEW), OtelInMemory()
    shop.customers.snapshot({"id": 1, "region": "north"})
    shop.orders.insert({"id": 1, "customer_id": 1, "amount": 5, "at": 1})
    shop.orders.insert({"id": 2, "customer_id": 1, "amount": -5, "at": 1})
    transforms = [
        Unwrap(),
        Mask(columns={"region": {"sha256": {"salt": "s" * 16}}}),
        Rename(columns={"region": "area"}),
        Compute(columns={"cents": "amount * 100"}, tables=ORDERS),
        Filter(condition="amount > 0", tables=ORDERS),
        Drop(columns=["at"]),
    ]
    shop.run(transforms=transforms, observers=[OpenLineage(namespace="prod"), otel])
    events = read_events()
    for event in events:
        check_event(event)
    customers, orders, totals = find(events, CUSTOMERS), find(events, ORDERS), find(events, "shop.totals")
    assert describe(customers) == {"id": ["id"], "area": ["#region"]}
    assert describe(orders) == {
        "id": ["id"],
        "customer_id": ["customer_id"],
        "amount": ["amount"],
        "cents": ["~amount"],
    }
    assert describe(totals) == {"customer_id": ["id"], "area": ["area"], "total": ["~amount"], "least": ["~amount"]}
    assert [one["field"] for one in orders["outputs"][0]["facets"]["columnLineage"]["dataset"]] == ["amount"]
    (landing,) = customers["inputs"]
    assert (landing["namespace"], landing["name"]) == ("file", f"{tmp_path}/shop/landing/{CUSTOMERS}")
    assert {one["name"] for one in totals["inputs"]} == {one["outputs"][0]["name"] for one in (customers, orders)}
    assert orders["outputs"][0]["outputFacets"]["outputStatistics"]["rowCount"] == 1
    assert orders["run"]["facets"]["headrace_batches"]["records"]["filtered"] == 1
    assert "north" not in str(events)
    spans = otel.spans.get_finished_spans()
    tables = sorted(str((span.attributes or {})["headrace.table"]) for span in spans if span.name == "headrace.table")
    assert tables == sorted([CUSTOMERS, ORDERS, "shop.totals"])
    assert {"headrace.run", "headrace.batch", "headrace.step.write"} <= {span.name for span in spans}


def test_new_column_changes_the_lineage(spark: SparkSession, tmp_path: Path, read_events: Read) -> None:
    shop = Shop(spark, tmp_path / "shop")
    shop.customers.snapshot({"id": 1, "region": "north"})
    shop.run(observers=[OpenLineage()])
    shop.customers.columns["name"] = "string"
    shop.customers.snapshot({"id": 2, "region": "south", "name": "Ann"})
    shop.run(observers=[OpenLineage()])
    first, second = [
        event
        for event in read_events()
        if event["job"]["name"] == "shop." + CUSTOMERS and event["eventType"] == "COMPLETE"
    ]
    assert (set(describe(first)), set(describe(second))) == ({"id", "region"}, {"id", "region", "name"})
