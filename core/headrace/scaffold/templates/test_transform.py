# mypy: disable-error-code="import-not-found, misc"
from pathlib import Path

from headrace_example import Example
from pyspark.sql import SparkSession

from headrace import Pipeline
from headrace.testing.records import Records
from headrace.testing.transforms import TransformConformance
from headrace_sinks import FilesSink
from headrace_sources import JsonFormat


class TestExample(TransformConformance):
    """About twenty tests: those for every plugin and those for transforms."""

    plugin_class = Example
    schema = "id int, name string"
    golden = (((1, " Arp "), (1, "Arp")), ((2, None), (2, None)))

    def config(self, folder: Path) -> dict[str, list[str]]:
        return {"columns": ["name"]}


def test_spaces_are_removed_in_a_pipeline(headrace_spark: SparkSession, tmp_path: Path) -> None:
    people = Pipeline(
        name="people",
        source=Records("shop.people", b'{"id": 1, "name": " Arp "}'),
        value=JsonFormat(),
        key="none",
        transforms=[Example(columns=["name"])],
        sinks=[FilesSink(path=str(tmp_path / "out"))],
        checkpoint=str(tmp_path / "checkpoint"),
    )
    people.run(headrace_spark)
    assert [(row.id, row.name) for row in people.read("shop.people").collect()] == [(1, "Arp")]
