# mypy: disable-error-code="import-not-found, misc"
import json
from pathlib import Path

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


def test_a_pipeline_uses_the_order_of_the_connector(headrace_spark: SparkSession, tmp_path: Path) -> None:
    block = {"connector": "example", "sequence": None, "scn": "80", "commit_scn": "100", "ssn": 0}
    event = {"op": "c", "before": None, "after": {"id": 1, "name": "Hans Arp"}, "source": block}
    people = Pipeline(
        name="people",
        source=Records("shop.people", json.dumps(event).encode()),
        value=JsonFormat(),
        key="none",
        tables=[{"source": "*", "key": "id"}],
        transforms=[Unwrap()],
        sinks=[FilesSink(path=str(tmp_path / "out"), mode="changelog")],
        checkpoint=str(tmp_path / "checkpoint"),
    )
    people.run(headrace_spark)
    assert [row.name for row in people.read("shop.people").collect()] == ["Hans Arp"]
    # The checkpoint records what orders the changes of each topic.
    assert "example's SCNs" in (tmp_path / "checkpoint/orders.json").read_text()
