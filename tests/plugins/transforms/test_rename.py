"""Columns get other names, in every image and in the key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pydantic import ValidationError

from headrace.engine.plan import Plan, SeenColumns
from headrace.engine.routing import Routes
from headrace.errors import ConfigError, DataError
from headrace.sdk.changes import KEY, Changes
from headrace_sinks.console import ConsoleSink
from headrace_sources.transports.files import FilesSource
from headrace_transforms.rename import Rename

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.one_spark]

ENVELOPE = f"before struct<id int, name string>, after struct<id int, name string>, op string, {KEY} struct<id int>"


def rename(**columns: str) -> Rename:
    return Rename(columns=columns)


def dicts(changes: Changes) -> list[dict[str, Any]]:
    return [row.asDict(recursive=True) for row in changes.frame.collect()]


def test_before_after_and_key(spark: SparkSession) -> None:
    envelopes = Changes(
        spark.createDataFrame([((1, "x"), (1, "y"), "u", (1,)), ((1, "y"), None, "d", (1,))], ENVELOPE), envelope=True
    )
    done = rename(id="artist_id", name="display_name").apply(envelopes)
    assert dicts(done) == [
        {
            "before": {"artist_id": 1, "display_name": "x"},
            "after": {"artist_id": 1, "display_name": "y"},
            "op": "u",
            KEY: {"artist_id": 1},
        },
        {"before": {"artist_id": 1, "display_name": "y"}, "after": None, "op": "d", KEY: {"artist_id": 1}},
    ]
    assert (done.envelope, done.key_columns) == (True, ["artist_id"])


def test_standing_alone_on_rows(spark: SparkSession) -> None:
    rows = spark.createDataFrame([(1, "x")], "id int, `full name` string")
    done = rename(**{"full name": "name.full", "nobody": "somebody"})(rows)
    assert (done.columns, [tuple(r) for r in done.collect()]) == (["id", "name.full"], [(1, "x")])


def test_standing_alone_on_envelopes(spark: SparkSession) -> None:
    envelopes = spark.createDataFrame([(None, (1, "y"), "c")], ENVELOPE.rsplit(",", 1)[0])
    assert rename(name="title")(envelopes).schema["after"].simpleString() == "after:struct<id:int,title:string>"


@pytest.mark.parametrize("taken", ["name", "Name"])
def test_an_existing_name_is_refused(spark: SparkSession, taken: str) -> None:
    rows = spark.createDataFrame([(1, "x")], "id int, name string")
    with pytest.raises(DataError) as raised:
        rename(id=taken)(rows)
    assert str(raised.value) == f"two columns would be called {taken!r}\n  fix: rename to a name that is not taken"


@pytest.mark.parametrize(
    ("columns", "what"),
    [
        ({}, "at least 1 item"),
        ({"a": "c", "b": "c"}, "two columns would be called 'c'"),
        ({"a": "c", "b": "C"}, "two columns would be called 'c'"),
        ({"a": ""}, "'' cannot be a column's name"),
        ({"a": "_headrace_position"}, "'_headrace_position' cannot be a column's name"),
    ],
)
def test_names_that_can_be_none(columns: dict[str, str], what: str) -> None:
    with pytest.raises(ValidationError, match=what):
        rename(**columns)


class TestUnknownColumns:
    """A name that no table has fails before the stream starts."""

    @staticmethod
    def plan(transform: Rename) -> Plan:
        source = FilesSource(path="x", format="json")
        return Plan("moma", source, (ConsoleSink(),), "checkpoint", Routes([]), (), (transform,))

    def test_it_is_told_with_the_nearest(self) -> None:
        plan = self.plan(transform := rename(nationalty="country"))
        seen: SeenColumns = {transform: {"id", "nationality"}}
        with pytest.raises(ConfigError) as raised:
            plan.check_names(seen)
        assert str(raised.value) == (
            "transform rename: there is no column 'nationalty' in any table\n  fix: did you mean 'nationality'?"
        )

    def test_a_name_of_one_table_is_enough(self) -> None:
        plan = self.plan(transform := rename(nationality="country"))
        plan.check_names({transform: {"id", "nationality", "title"}})
