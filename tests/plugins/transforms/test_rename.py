"""Renamed columns, in every image and in the key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.support.spark_conf import case_sensitive

from headrace.engine.read.seen_columns import SeenColumns
from headrace.errors import ConfigError, DataError
from headrace.sdk.changes import KEY, Changes
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
    renamed = rename(id="artist_id", name="display_name").apply(envelopes)
    assert dicts(renamed) == [
        {
            "before": {"artist_id": 1, "display_name": "x"},
            "after": {"artist_id": 1, "display_name": "y"},
            "op": "u",
            KEY: {"artist_id": 1},
        },
        {"before": {"artist_id": 1, "display_name": "y"}, "after": None, "op": "d", KEY: {"artist_id": 1}},
    ]
    assert (renamed.envelope, renamed.key_columns) == (True, ["artist_id"])


def test_plain_frame_of_rows(spark: SparkSession) -> None:
    rows = spark.createDataFrame([(1, "x")], "id int, `full name` string")
    renamed = rename(**{"full name": "name.full", "missing": "renamed"})(rows)
    assert (renamed.columns, [tuple(r) for r in renamed.collect()]) == (["id", "name.full"], [(1, "x")])


def test_plain_frame_of_envelopes(spark: SparkSession) -> None:
    envelopes = spark.createDataFrame([(None, (1, "y"), "c")], ENVELOPE.rsplit(",", 1)[0])
    assert rename(name="title")(envelopes).schema["after"].simpleString() == "after:struct<id:int,title:string>"


def test_name_matches_by_case_setting_of_the_session(spark: SparkSession) -> None:
    rows = spark.createDataFrame([(1, "x")], "id int, Name string")
    assert rename(NAME="title")(rows).columns == ["id", "title"]
    with case_sensitive(spark):
        assert rename(NAME="title")(rows).columns == ["id", "Name"]


@pytest.mark.parametrize("taken", ["name", "Name"])
def test_existing_name_is_rejected(spark: SparkSession, taken: str) -> None:
    rows = spark.createDataFrame([(1, "x")], "id int, name string")
    with pytest.raises(DataError) as raised:
        rename(id=taken)(rows)
    assert str(raised.value) == f"two columns would be named {taken!r}\n  fix: rename to an unused name"


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({}, "is empty or too short"),
        ({"a": "c", "b": "c"}, "two columns would be named 'c'"),
        ({"a": "c", "b": "C"}, "two columns would be named 'c'"),
        ({"a": ""}, "'' is not a valid column name"),
        ({"a": "_headrace_position"}, "'_headrace_position' is not a valid column name"),
    ],
)
def test_invalid_names(columns: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        rename(**columns)


class TestUnknownColumns:
    """Unknown columns fail before the stream starts."""

    @staticmethod
    def seen_columns(spark: SparkSession, transform: Rename, *tables: str) -> SeenColumns:
        seen = SeenColumns()
        for columns in tables:
            seen.note(transform, "a.topic", Changes(spark.createDataFrame([], columns), envelope=False))
        return seen

    def test_error_suggests_the_nearest_column(self, spark: SparkSession) -> None:
        seen = self.seen_columns(spark, rename(nationalty="country"), "id int, nationality string")
        with pytest.raises(ConfigError) as raised:
            seen.check_names()
        assert str(raised.value) == (
            "transform rename: no table has the column 'nationalty'\n  fix: did you mean 'nationality'?"
        )

    def test_name_in_one_table_is_enough(self, spark: SparkSession) -> None:
        self.seen_columns(
            spark, rename(nationality="country"), "id int, title string", "nationality string"
        ).check_names()

    def test_check_follows_case_setting_of_the_session(self, spark: SparkSession) -> None:
        self.seen_columns(spark, rename(nationality="country"), "id int, Nationality string").check_names()
        with case_sensitive(spark), pytest.raises(ConfigError, match="did you mean 'Nationality'"):
            self.seen_columns(spark, rename(nationality="country"), "id int, Nationality string").check_names()
