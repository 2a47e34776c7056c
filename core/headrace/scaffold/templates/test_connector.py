# mypy: disable-error-code="import-not-found, misc"
import json
from pathlib import Path
from typing import Any

from headrace_example import Example
from pyspark.sql import SparkSession

from headrace import Pipeline
from headrace.testing.connectors import ConnectorConformance
from headrace.testing.records import Records
from headrace_sinks import FilesSink
from headrace_sources import JsonFormat
from headrace_transforms import Unwrap


class TestExample(ConnectorConformance):
    """The tests of every plugin and of every connector."""

    plugin_class = Example
    schema = "connector string, scn string, commit_scn string, ssn bigint"
    history = (
        {"scn": "50"},  # a row of the snapshot
        {"scn": "90", "commit_scn": "99", "ssn": 0},
        {"scn": "90", "commit_scn": "99", "ssn": 1},
        {"scn": "80", "commit_scn": "100", "ssn": 0},  # started earlier, committed later
    )


def test_the_newest_change_by_scn_wins(headrace_spark: SparkSession, tmp_path: Path) -> None:
    def event(name: str, **source: Any) -> bytes:
        block = {"connector": "example", "sequence": None, **source}
        return json.dumps({"op": "u", "before": None, "after": {"id": 1, "name": name}, "source": block}).encode()

    late = event("Arp", scn="90", commit_scn="99", ssn=0)
    people = Pipeline(
        name="people",
        source=Records("shop.people", event("Hans Arp", scn="80", commit_scn="100", ssn=0), late),
        value=JsonFormat(),
        key="none",
        tables=[{"source": "*", "key": "id"}],
        transforms=[Unwrap()],
        sinks=[FilesSink(path=str(tmp_path / "out"), mode="changelog")],
        checkpoint=str(tmp_path / "checkpoint"),
    )
    people.run(headrace_spark)
    rows = people.read("shop.people").orderBy("_headrace_position").collect()
    assert [row.name for row in rows][-1] == "Hans Arp"
