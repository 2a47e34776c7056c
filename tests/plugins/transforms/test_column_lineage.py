"""Columns of a table with the columns of the topic from which the built-in transforms make them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from tests.plugins.transforms.test_row_transforms import OWN, frame_of

from headrace.engine.read.column_tracer import ColumnTracer, TopicTrace
from headrace.sdk.changes import Changes
from headrace_transforms import Cast, Compute, Drop, Filter, Flatten, Insert, Keep, Mask, Rename, Unwrap

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.sdk.transform import Transform

pytestmark = [pytest.mark.spark, pytest.mark.one_spark]

ROW = "struct<id int, email string, name string, address struct<street: string, city: string>>"
PERSON = (1, "a@shop.com", "Ann", ("Main", "Bern"))
HIDE: dict[str, Any] = {"nullify": True}


@pytest.fixture(scope="module")
def envelope(spark: SparkSession) -> Changes:
    event = (PERSON, PERSON, "u", (1,), "u", False, None, None, "people", 0)
    frame = frame_of(spark, f"before {ROW}, after {ROW}, op string, {OWN}", event)
    return Changes(frame, envelope=True, table="people")


def trace(changes: Changes, *transforms: Transform) -> TopicTrace:
    tracer = ColumnTracer("people", changes)
    for transform in transforms:
        result = transform.process(tracer.mark(changes))
        changes = tracer.follow(changes, result, transform)
        assert changes.tags == {}
    found = tracer.end(changes)
    assert found
    return found


def describe(found: TopicTrace) -> dict[str, list[str]]:
    """Return column → its sources: ``~`` for a changed value, ``#`` for a masked one."""
    marks = {(False, False): "", (True, False): "~", (True, True): "#"}
    return {
        column: sorted(marks[one.is_changed, one.is_masked] + one.column for one in sources)
        for column, sources in found.sources.items()
    }


SAME = {"id": ["id"], "email": ["email"], "name": ["name"], "address": ["address"]}


@pytest.mark.parametrize(
    ("transforms", "changed"),
    [
        ([], {}),
        ([Rename(columns={"email": "mail"})], {"mail": ["email"], "email": None}),
        ([Rename(columns={"email": "name", "name": "email"})], {"email": ["name"], "name": ["email"]}),
        ([Drop(columns=["email"])], {"email": None}),
        ([Keep(columns=["id", "name"])], {"email": None, "address": None}),
        ([Cast(columns={"id": "bigint"})], {"id": ["~id"]}),
        ([Compute(columns={"label": "concat(name, email)"})], {"label": ["~email", "~name"]}),
        ([Compute(columns={"email": "lower(email)"})], {"email": ["~email"]}),
        # Another value takes the name.
        ([Compute(columns={"email": "name"})], {"email": ["~name"]}),
        ([Compute(columns={"email": "'x'"})], {"email": []}),
        ([Drop(columns=["email"]), Insert({"static.field": "email", "static.value": "x"})], {"email": []}),
        ([Insert({"static.field": "site", "static.value": "x"})], {"site": []}),
        ([Compute(columns={"a": "upper(name)"}), Rename(columns={"a": "b"}), Drop(columns=["name"])], {"b": ["~name"], "name": None}),
        ([Mask(columns={"email": {"sha256": {"salt": "s" * 16}}})], {"email": ["#email"]}),
        ([Mask(columns={"email": HIDE}), Rename(columns={"email": "mail"})], {"email": None, "mail": ["#email"]}),
        ([Mask(columns={"email": HIDE}), Compute(columns={"domain": "substr(email, 2)"})], {"email": ["#email"], "domain": ["#email"]}),
        # A part of the column is hidden, or the column in some rows: the rest is visible.
        ([Mask(columns={"address.street": HIDE})], {"address": ["~address"]}),
        ([Mask(columns={"email": HIDE}, when="id > 1")], {"email": ["~email"]}),
        ([Mask(columns={"email": HIDE}, tables="orders")], {}),
        ([Rename(columns={"email": "mail"}, when="id > 1")], {"mail": ["email"]}),
        ([Unwrap(), Flatten(delimiter="_")], {"address": None, "address_street": ["~address"], "address_city": ["~address"]}),
        ([Unwrap({"add.fields": "before.email:old"})], {"__old": ["email"]}),
    ],
)  # fmt: skip
def test_sources_of_columns(
    envelope: Changes, transforms: list[Transform], changed: dict[str, list[str] | None]
) -> None:
    expected = {name: sources for name, sources in {**SAME, **changed}.items() if sources is not None}
    assert describe(trace(envelope, *transforms)) == expected


def test_types_and_filters(envelope: Changes) -> None:
    found = trace(envelope, Unwrap(), Rename(columns={"name": "label"}), Filter(condition="label = 'Ann' AND id > 0"))
    assert found.given == {
        "id": "int",
        "email": "string",
        "name": "string",
        "address": "struct<street:string,city:string>",
    }
    assert list(found.made) == ["id", "email", "label", "address"]
    assert {one.column for one in found.filters} == {"id", "name"}


def test_plugin_that_fails_leaves_the_lineage_unknown(envelope: Changes) -> None:
    class Broken(Rename):
        hides_values = True

        def hides(self, changes: Changes) -> Any:
            raise RuntimeError("no")

    tracer, transform = ColumnTracer("people", envelope), Broken(columns={"email": "mail"})
    changes = tracer.follow(envelope, transform.process(tracer.mark(envelope)), transform)
    assert (changes.tags, tracer.end(changes)) == ({}, None)


def test_tags_of_the_pipeline_stay(envelope: Changes) -> None:
    tagged = replace(envelope, tags={"pii": frozenset({"email"})})
    tracer, transform = ColumnTracer("people", tagged), Rename(columns={"email": "mail"})
    changes = tracer.follow(tagged, transform.process(tracer.mark(tagged)), transform)
    assert changes.tags == {"pii": frozenset({"mail"})}
