# mypy: disable-error-code="import-not-found, misc"
import json
from pathlib import Path

from headrace_example import Example
from pyspark.sql import SparkSession

from headrace import Pipeline
from headrace.testing.dialects import DialectConformance
from headrace.testing.records import Records
from headrace_sinks import FilesSink
from headrace_sources import JsonFormat


class TestExample(DialectConformance):
    """About twenty tests: those for every plugin and those for dialects."""

    plugin_class = Example
    schema = "action string, seq bigint, row struct<id int, name string>"
    history = (
        ({"action": "insert", "seq": 9, "row": {"id": 1, "name": "Arp"}}, "c", {"id": 1, "name": "Arp"}),
        ({"action": "update", "seq": 10, "row": {"id": 1, "name": "Hans Arp"}}, "u", {"id": 1, "name": "Hans Arp"}),
        ({"action": "delete", "seq": 11, "row": {"id": 1, "name": "Hans Arp"}}, "d", {"id": 1}),
    )
    malformed = ({"action": "vacuum", "seq": 12, "row": None},)

    def config(self, folder: Path) -> dict[str, str]:
        return {}


def test_events_become_rows_or_dead_letters(headrace_spark: SparkSession, tmp_path: Path) -> None:
    events = [*(event for event, _, _ in TestExample.history), *TestExample.malformed]
    people = Pipeline(
        name="people",
        source=Records("shop.people", *(json.dumps(event).encode() for event in events)),
        value=JsonFormat(),
        key="none",
        tables=[{"source": "*", "key": "id"}],
        dialects=[Example()],
        sinks=[FilesSink(path=str(tmp_path / "out"), mode="changelog")],
        checkpoint=str(tmp_path / "checkpoint"),
    )
    people.run(headrace_spark)
    rows = people.read("shop.people").collect()
    assert {(row["__op"], row.name) for row in rows} == {("c", "Arp"), ("u", "Hans Arp"), ("d", "Hans Arp")}
    dead = people.read_dead_letters()
    assert dead is not None
    assert [row.reason for row in dead.collect()] == ["op-unknown"]
