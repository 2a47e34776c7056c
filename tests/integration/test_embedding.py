"""Embedding example that applies transforms to its own DataFrames. tests/packaging submits the other example."""

from __future__ import annotations

import runpy
from typing import TYPE_CHECKING

import pytest
from tests.support.dist import ROOT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.spark
def test_transforms_run_on_application_dataframes(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SALT", "pepper")
    names = runpy.run_path(str(ROOT / "examples/embedding/transforms_alone.py"), run_name="__main__")
    printed = capsys.readouterr().out
    assert "Höch" not in printed
    assert "Hennings" not in printed

    events = spark.read.json(str(names["EVENTS"]))
    rows = names["make_rows"](events).collect()
    changes = [(row["id"], row["country"], row["__op"], row["__deleted"]) for row in rows]
    assert changes[0] == (1, "Germany", "c", "false")
    assert changes[-2:] == [(2, "France", "u", "false"), (4, "Nowhere", "d", "true")]
    guests = spark.createDataFrame([(1, "Emmy Hennings", "emmy@example.org")], "id INT, name STRING, email STRING")
    (hidden,) = names["hide_people"](guests).collect()
    assert (hidden["id"], len(hidden["name"]), hidden["email"]) == (1, 64, "***")
