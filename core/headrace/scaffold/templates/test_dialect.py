from pathlib import Path

from pyspark.sql import SparkSession

from headrace import Pipeline
from headrace.sdk import Events, registry
from headrace.testing.records import Records
from headrace_sinks import FilesSink
from headrace_sources import JsonFormat

EVENTS = (
    b'{"action": "update", "seq": 3, "row": {"id": 1, "name": "Hans Arp"}}',
    b'{"action": "insert", "seq": 1, "row": {"id": 1, "name": "Arp"}}',
    b'{"action": "insert", "seq": 2, "row": {"id": 2, "name": "Klee"}}',
    b'{"action": "delete", "seq": 4, "row": {"id": 2, "name": "Klee"}}',
    b'{"action": "vacuum", "seq": 5, "row": null}',
)


def test_events_become_rows_or_dead_letters(headrace_spark: SparkSession, tmp_path: Path) -> None:
    people = Pipeline(
        name="people",
        source=Records("shop.people", *EVENTS),
        value=JsonFormat(),
        key="none",
        tables=[{"source": "*", "key": "id"}],
        dialects=[registry().get("dialect", "example")()],
        sinks=[FilesSink(path=str(tmp_path / "out"), mode="changelog")],
        checkpoint=str(tmp_path / "checkpoint"),
    )
    people.run(headrace_spark)
    rows = people.read("shop.people").collect()
    assert {(row["__op"], row.name) for row in rows} == {("c", "Arp"), ("c", "Klee"), ("u", "Hans Arp"), ("d", "Klee")}
    dead = people.read_dead_letters()
    assert dead is not None
    assert [row.reason for row in dead.collect()] == ["op-unknown"]


def test_positions_sort_as_the_database_made_the_changes(headrace_spark: SparkSession) -> None:
    texts = headrace_spark.createDataFrame(
        [(text.decode(), n) for n, text in enumerate(EVENTS)], "text string, n bigint"
    )
    schema = "action string, seq bigint, row struct<id: int, name: string>"
    nothing = "cast(null as string)"
    frame = texts.selectExpr(
        *(f"from_json(text, '{schema}') value", "0 partition", "n offset", "cast(n as string) place"),
        *(f"{nothing} file", f"{nothing} error", "cast(text as binary) raw"),
    )
    events = Events("shop.people", frame.select("value.*").schema, lambda session, wanted: frame)
    changes = registry().get("dialect", "example")().changes(events, frame, ["id"]).frame
    found = changes.where("_headrace_error is null").orderBy("_headrace_position").collect()
    assert [(row["_headrace_op"], row.name) for row in found] == [
        ("c", "Arp"),
        ("c", "Klee"),
        ("u", "Hans Arp"),
        ("d", "Klee"),
    ]
