# mypy: disable-error-code="import-not-found, misc"
import json
from collections.abc import Sequence
from pathlib import Path

from headrace_example import Example
from pyspark.sql import SparkSession

from headrace import Pipeline
from headrace.testing.sources import SourceConformance


def append(log: Path, texts: Sequence[str]) -> None:
    lines = log.read_text(encoding="utf-8").count("\n")
    with log.open("a", encoding="utf-8") as file:
        for number, text in enumerate(texts, lines + 1):
            record = {
                "line": number,
                "topic": "shop.people",
                "key": {"id": number},
                "value": {"id": number, "name": text},
            }
            file.write(json.dumps(record, ensure_ascii=False) + "\n")


class TestExample(SourceConformance):
    """About twenty tests: those for every plugin and those for sources."""

    plugin_class = Example
    refused = ({"path": "/not/there"},)

    def config(self, folder: Path) -> dict[str, str]:
        (folder / "log.jsonl").touch()
        return {"path": str(folder / "log.jsonl")}

    def add(self, folder: Path, texts: Sequence[str]) -> None:
        append(folder / "log.jsonl", texts)


def test_a_second_run_reads_appended_records(headrace_spark: SparkSession, tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    log.touch()
    file = {
        "name": "people",
        "source": {"example": {"path": str(log), "limit": 2}, "value": "json"},
        "sink": {"files": {"path": str(tmp_path / "out")}},
        "checkpoint": str(tmp_path / "checkpoint"),
    }
    for names in (["Arp", "Klee", "Kahlo"], ["Ernst"]):
        append(log, names)
        Pipeline.from_dict(file).run(headrace_spark)
    found = Pipeline.from_dict(file).read("shop.people", spark=headrace_spark)
    assert [(row.id, row.name) for row in found.orderBy("id").collect()] == [
        (1, "Arp"),
        (2, "Klee"),
        (3, "Kahlo"),
        (4, "Ernst"),
    ]
