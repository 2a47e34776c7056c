from pathlib import Path

from pyspark.sql import SparkSession

from headrace import Pipeline
from headrace.sdk import registry
from headrace.testing.records import Records
from headrace_sinks import FilesSink

RECORDS = (b'1,"Arp, Hans"', b"no number,Klee", b"2,", None)


def test_records_become_rows_or_dead_letters(headrace_spark: SparkSession, tmp_path: Path) -> None:
    people = Pipeline(
        name="people",
        source=Records("shop.people", *RECORDS),
        value=registry().get("format", "example")(columns="id int, name string"),
        key="none",
        sinks=[FilesSink(path=str(tmp_path / "out"))],
        checkpoint=str(tmp_path / "checkpoint"),
    )
    people.run(headrace_spark)
    rows = people.read("shop.people").orderBy("id").collect()
    assert [(row.id, row.name) for row in rows] == [(1, "Arp, Hans"), (2, None)]
    dead = people.read_dead_letters()
    assert dead is not None
    assert [(row.reason, bytes(row.value)) for row in dead.collect()] == [("undecodable", b"no number,Klee")]
