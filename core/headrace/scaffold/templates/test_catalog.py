# mypy: disable-error-code="import-not-found, misc"
import json
from pathlib import Path
from typing import Any

from headrace_example import Example
from pyspark.sql import SparkSession

from headrace import Pipeline
from headrace.testing.plugins import PluginConformance
from headrace.testing.records import Records
from headrace_sinks import FilesSink
from headrace_sources import JsonFormat


class TestExample(PluginConformance):
    """Tests for every plugin."""

    plugin_class = Example

    def config(self, folder: Path) -> dict[str, str]:
        return {"path": str(folder)}


def sync(spark: SparkSession, folder: Path, *records: bytes) -> dict[str, Any]:
    """Run the pipeline on these records and return the catalog's entry for the table."""
    catalog = Example(path=str(folder / "catalog"))
    people = Pipeline(
        name="people",
        source=Records("shop.people", *records),
        value=JsonFormat(),
        key="none",
        sinks=[FilesSink(path=str(folder / "out"), sync=catalog)],
        checkpoint=str(folder / "checkpoint"),
    )
    people.run(spark)
    found: dict[str, Any] = json.loads((folder / "catalog/shop.people.json").read_text())
    return found


def test_the_catalog_has_the_newest_columns(headrace_spark: SparkSession, tmp_path: Path) -> None:
    table = sync(headrace_spark, tmp_path, b'{"id": 1, "name": "Arp"}')
    assert table["location"].endswith("/out/shop/people")
    assert table["columns"].items() >= {"id": "bigint", "name": "string"}.items()
    again = sync(headrace_spark, tmp_path, b'{"id": 1, "name": "Arp"}', b'{"id": 2, "born": 1886}')
    assert again["columns"].items() >= {"id": "bigint", "name": "string", "born": "bigint"}.items()
