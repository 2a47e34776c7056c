# mypy: disable-error-code="import-not-found, misc"
import json
from pathlib import Path
from typing import Any

from headrace_example import Example
from pyspark.sql import SparkSession

from headrace import Pipeline
from headrace.testing.observers import ObserverConformance
from headrace.testing.records import Records
from headrace_sinks import FilesSink
from headrace_sources import JsonFormat


def read(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


class TestExample(ObserverConformance):
    """Tests for every observer."""

    plugin_class = Example

    def config(self, folder: Path) -> dict[str, str]:
        return {"path": str(folder / "events.jsonl")}

    def read_applied(self, observer: Example) -> int:
        events = read(Path(observer.config.path))
        return sum(applied or 0 for event in events for applied in event.get("applied", {}).values())


def test_the_events_of_a_run_are_written(headrace_spark: SparkSession, tmp_path: Path) -> None:
    people = Pipeline(
        name="people",
        source=Records("shop.people", b'{"id": 1, "name": "Arp"}'),
        value=JsonFormat(),
        key="none",
        sinks=[FilesSink(path=str(tmp_path / "out"))],
        checkpoint=str(tmp_path / "checkpoint"),
        observers=[Example(path=str(tmp_path / "events.jsonl"))],
    )
    people.run(headrace_spark)
    events = read(tmp_path / "events.jsonl")
    assert [event["event"] for event in events] == ["run started", "batch started", "batch committed", "run stopped"]
    assert events[2]["applied"] == {"shop.people": 1}
