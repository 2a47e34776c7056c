import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from headrace import Pipeline
from headrace.sdk import ConfigError, registry


def append(log: Path, *rows: dict[str, Any]) -> None:
    lines = log.read_text().count("\n") if log.exists() else 0
    with log.open("a") as file:
        for number, row in enumerate(rows, lines + 1):
            record = {"line": number, "topic": "shop.people", "key": {"id": row["id"]}, "value": row}
            file.write(json.dumps(record) + "\n")


def test_what_is_appended_comes_next(headrace_spark: SparkSession, tmp_path: Path) -> None:
    log, people = tmp_path / "log.jsonl", [{"id": n, "name": f"n{n}"} for n in range(5)]
    file = {
        "name": "people",
        "source": {"example": {"path": str(log), "limit": 2}, "value": "json"},
        "sink": {"files": {"path": str(tmp_path / "out")}},
        "checkpoint": str(tmp_path / "checkpoint"),
    }
    for rows in (people[:3], people[3:]):
        append(log, *rows)
        Pipeline.from_dict(file).run(headrace_spark)
    found = Pipeline.from_dict(file).read("shop.people", spark=headrace_spark)
    assert [row.asDict() for row in found.orderBy("id").collect()] == people


def test_a_range_is_the_same_records_for_ever(headrace_spark: SparkSession, tmp_path: Path) -> None:
    append(log := tmp_path / "log.jsonl", *({"id": n} for n in range(4)))
    source = registry().get("source", "example")(path=str(log))
    before = source.read(headrace_spark, {"line": 1}, {"line": 3}).collect()
    append(log, {"id": 4})
    with log.open("a") as file:
        file.write('{"line": 6, "topic": "half of a line')
    assert source.read(headrace_spark, {"line": 1}, {"line": 3}).collect() == before
    assert [row.offset for row in before] == [2, 3]
    assert source.latest({"line": 0}, None) == {"line": 5}
    assert source.latest({"line": 1}, 2) == {"line": 3}


def test_a_log_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no such file"):
        registry().get("source", "example")(path=str(tmp_path / "none")).check()
