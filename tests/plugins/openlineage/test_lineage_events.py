"""Events of a pipeline and its tables: runs, datasets, columns and counts, in the form of the specification."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.plugins.openlineage.conftest import Read
from tests.plugins.openlineage.doubles import LINEAGE, ORDERS, PEOPLE, ObservedRun
from tests.plugins.openlineage.specification import check_event

from headrace.sdk.observer import ColumnSource, LineageInput, RunEventKind, TableLineage

SECRET = "canary-4711"


def states(events: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(event["job"]["name"], event["eventType"]) for event in events]


def last(events: list[dict[str, Any]], job: str) -> dict[str, Any]:
    return next(event for event in reversed(events) if event["job"]["name"] == job)


def test_every_event_has_the_form_of_the_specification(read_events: Read) -> None:
    run = ObservedRun()
    run.commit(0, ORDERS, PEOPLE)
    run.commit(1, replace(ORDERS, error="disk full"), PEOPLE)
    run.end("the source is gone")
    events = read_events()
    for event in events:
        check_event(event)
    assert states(events)[0] == ("shop", "START")
    # Of the RUNNING events, only those are sent that no later event replaces.
    assert sorted(one for one in states(events)[1:] if one[1] != "RUNNING") == [
        ("shop", "FAIL"),
        ("shop.shop.orders", "FAIL"),
        ("shop.shop.orders", "START"),
        ("shop.shop.people", "ABORT"),
        ("shop.shop.people", "START"),
    ]
    assert run.warnings == []


@pytest.mark.parametrize("change", ["run", "facet", "field", "type"])
def test_specification_finds_wrong_events(read_events: Read, change: str) -> None:
    run = ObservedRun()
    run.commit(0, ORDERS)
    run.end()
    event = last(read_events(), "shop.shop.orders")
    facets = event["outputs"][0]["facets"]
    if change == "run":
        event["run"]["runId"] = "1"
    elif change == "facet":
        del facets["schema"]["_producer"]
    elif change == "field":
        facets["columnLineage"]["fields"]["id"]["inputFields"][0]["kolumn"] = "id"
    else:
        facets["schema"]["fields"][0]["type"] = 1
    with pytest.raises(Exception, match=r"runId|_producer|kolumn|type|match"):
        check_event(event)


def test_datasets_and_columns(read_events: Read) -> None:
    run = ObservedRun()
    run.commit(0, ORDERS)
    run.end()
    event = last(read_events(), "shop.shop.orders")
    (given,) = event["inputs"]
    assert (given["namespace"], given["name"]) == ("kafka://broker:9092", "db.orders")
    assert given["facets"]["schema"]["fields"][1] == {"name": "email", "type": "string", "fields": []}
    lake, console = event["outputs"]
    assert (lake["namespace"], lake["name"]) == ("s3://lake", "silver/shop/orders")
    assert (console["namespace"], console["name"]) == ("default", "console.shop.orders")
    assert [one["name"] for one in lake["facets"]["schema"]["fields"]] == ["id", "mail", "sum", "site"]
    lineage = lake["facets"]["columnLineage"]
    assert lineage["fields"].keys() == {"id", "mail", "sum"}

    def describe(fields: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
        return [
            (one["namespace"], one["name"], one["field"], use["type"], use["subtype"], use["masking"])
            for one in fields
            for use in one["transformations"]
        ]

    topic = ("kafka://broker:9092", "db.orders")
    assert describe(lineage["fields"]["id"]["inputFields"]) == [(*topic, "id", "DIRECT", "IDENTITY", False)]
    assert describe(lineage["fields"]["mail"]["inputFields"]) == [(*topic, "email", "DIRECT", "TRANSFORMATION", True)]
    assert describe(lineage["fields"]["sum"]["inputFields"]) == [(*topic, "total", "DIRECT", "TRANSFORMATION", False)]
    assert describe(lineage["dataset"]) == [(*topic, "id", "INDIRECT", "FILTER", False)]


def test_counts_are_sums_and_skipped_batches_count_nothing(read_events: Read) -> None:
    run = ObservedRun()
    run.commit(0, ORDERS)
    run.commit(1, replace(ORDERS, rows_in=None, applied=4, late=None, bytes=None))
    run.commit(2, replace(ORDERS, skipped=True))
    run.end()
    events = read_events()
    event = last(events, "shop.shop.orders")
    assert event["run"]["facets"]["headrace_batches"]["batches"] == 2
    assert event["run"]["facets"]["headrace_batches"]["lastBatch"] == 1
    assert event["run"]["facets"]["headrace_batches"]["records"] == {
        "rowsIn": 10,
        "late": 1,
        "superseded": 2,
        "deadLetters": 0,
        "dropped": 0,
        "filtered": 0,
    }
    written = event["outputs"][0]["outputFacets"]["outputStatistics"]
    assert (written["rowCount"], written["size"]) == (12, 100)
    assert last(events, "shop")["run"]["facets"]["headrace_batches"]["batches"] == 3


def test_table_belongs_to_the_run_of_the_pipeline(read_events: Read) -> None:
    run = ObservedRun()
    run.commit(0, ORDERS)
    run.end()
    events = read_events()
    parent = last(events, "shop.shop.orders")["run"]["facets"]["parent"]
    assert parent["run"]["runId"] == events[0]["run"]["runId"]
    assert (parent["job"]["namespace"], parent["job"]["name"]) == ("default", "shop")
    engine = events[0]["run"]["facets"]["processing_engine"]
    assert (engine["name"], engine["version"][:2]) == ("spark", "3.") or engine["version"].startswith("4.")


def test_table_that_is_set_aside_fails_once_and_catches_up_in_a_new_run(read_events: Read) -> None:
    run = ObservedRun()
    run.commit(0, ORDERS)
    assert run.observers.drain(10)
    broken = replace(
        ORDERS, error=f"[CAST_INVALID_INPUT] The value '{SECRET}' of the type STRING", rows_in=None, applied=None
    )
    for batch in (1, 2):
        run.commit(batch, broken)
    run.commit(3, ORDERS)
    run.end()
    events = [event for event in read_events() if event["job"]["name"] == "shop.shop.orders"]
    found = [event["eventType"] for event in events if event["eventType"] != "RUNNING"]
    assert found == ["START", "FAIL", "START", "COMPLETE"]
    assert len({event["run"]["runId"] for event in events}) == 2
    (failed,) = [event for event in events if event["eventType"] == "FAIL"]
    message = failed["run"]["facets"]["errorMessage"]["message"]
    assert message == "[CAST_INVALID_INPUT] The value '…' of the type STRING"
    assert SECRET not in str(events)
    assert events[-1]["run"]["facets"]["headrace_batches"]["batches"] == 1


def test_running_events_wait_for_the_interval_unless_the_columns_change(read_events: Read) -> None:
    def count() -> int:
        assert run.observers.drain(10)
        until_sent(run)
        return states(read_events()).count(("shop.shop.orders", "RUNNING"))

    run = ObservedRun()
    for batch in range(3):
        run.commit(batch, ORDERS)
        assert count() == 1
    run.lineage["shop.orders"] = replace(LINEAGE, types={**LINEAGE.types, "new": "int"})
    run.commit(3, ORDERS)
    assert count() == 2
    run.end()


def until_sent(run: ObservedRun) -> None:
    from tests.support.waiting import until

    until(lambda: not run.observer._outbox._waiting, "the events", 60)


def test_view_has_its_query_and_tables(read_events: Read) -> None:
    run = ObservedRun()
    run.lineage["sums"] = TableLineage(
        "sums",
        inputs={"shop.orders": LineageInput(LINEAGE.outputs["lake"], {"sum": "decimal(10,2)"})},
        outputs={"lake": None},
        types={"total": "decimal(20,2)"},
        sources={"total": frozenset({ColumnSource("shop.orders", "sum", is_changed=True)})},
        sql="SELECT sum(sum) AS total FROM shop.orders",
    )
    run.commit(0, replace(ORDERS, table="sums"))
    run.end()
    event = last(read_events(), "shop.sums")
    check_event(event)
    assert event["job"]["facets"]["sql"]["query"] == "SELECT sum(sum) AS total FROM shop.orders"
    assert event["outputs"][0]["name"] == "lake.sums"
    (source,) = event["outputs"][0]["facets"]["columnLineage"]["fields"]["total"]["inputFields"]
    assert (source["namespace"], source["name"], source["field"]) == ("s3://lake", "silver/shop/orders", "sum")


def test_failed_batch_without_progress_sends_no_table(read_events: Read) -> None:
    run = ObservedRun()
    run.observers.emit(RunEventKind.BATCH_FAILED, batch=0, error="no such bucket")
    run.end("no such bucket")
    assert states(read_events()) == [("shop", "START"), ("shop", "FAIL")]
