from pathlib import Path

from pyspark.sql import SparkSession

from headrace import Pipeline
from headrace.sdk import registry
from headrace.testing.records import Records
from headrace_sinks import FilesSink
from headrace_sources import JsonFormat

EVENT = b'{"op": "c", "before": null, "after": {"id": 1, "name": " Arp "}, "source": {"connector": "any"}}'


def test_spaces_go_from_rows_and_from_envelopes(headrace_spark: SparkSession, tmp_path: Path) -> None:
    transform = registry().get("transform", "example")(columns=["name"])
    people = Pipeline(
        name="people",
        source=Records("shop.people", EVENT),
        value=JsonFormat(),
        key="none",
        tables=[{"source": "*", "key": "id"}],
        transforms=[transform],
        sinks=[FilesSink(path=str(tmp_path / "out"))],
        checkpoint=str(tmp_path / "checkpoint"),
    )
    people.run(headrace_spark)
    assert [row.after.name for row in people.read("shop.people").collect()] == ["Arp"]


def test_on_a_frame_of_your_own(headrace_spark: SparkSession) -> None:
    transform = registry().get("transform", "example")(columns=["name"])
    frame = transform(headrace_spark.createDataFrame([(1, " Arp "), (2, None)], "id int, name string"))
    assert [tuple(row) for row in frame.collect()] == [(1, "Arp"), (2, None)]
