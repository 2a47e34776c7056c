# mypy: disable-error-code="import-not-found, misc"
from pathlib import Path

from headrace_example import Example
from pyspark.sql import SparkSession

from headrace import Pipeline
from headrace.testing.formats import FormatConformance
from headrace.testing.records import Records
from headrace_sinks import FilesSink


class TestExample(FormatConformance):
    """About twenty tests: those for every plugin and those for formats of records."""

    plugin_class = Example
    golden = ((b'1,"Arp, Hans"', {"id": 1, "name": "Arp, Hans"}), (b"2,", {"id": 2, "name": None}))
    malformed = (b"no number,Klee",)

    def config(self, folder: Path) -> dict[str, str]:
        return {"columns": "id int, name string"}


def test_records_become_rows_or_dead_letters(headrace_spark: SparkSession, tmp_path: Path) -> None:
    people = Pipeline(
        name="people",
        source=Records("shop.people", b'1,"Arp, Hans"', b"no number,Klee", None),
        value=Example(columns="id int, name string"),
        key="none",
        sinks=[FilesSink(path=str(tmp_path / "out"))],
        checkpoint=str(tmp_path / "checkpoint"),
    )
    people.run(headrace_spark)
    assert [(row.id, row.name) for row in people.read("shop.people").collect()] == [(1, "Arp, Hans")]
    dead = people.read_dead_letters()
    assert dead is not None
    assert [(row.reason, bytes(row.value)) for row in dead.collect()] == [("undecodable", b"no number,Klee")]
