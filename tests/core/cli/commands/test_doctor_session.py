"""Checks of ``headrace doctor --spark``."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from tests.core.conftest import Headrace, deliver

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_topics_are_checked_and_an_error_does_not_hide_connections(
    headrace: Headrace, sample: Path, command_spark: SparkSession
) -> None:
    deliver(sample.parent, 0)
    # The tests' JVM has another working directory.
    sample.write_text(
        sample.read_text().replace("bronze/", f"{sample.parent}/bronze").replace("lake/", f"{sample.parent}/lake/")
    )
    done = headrace("doctor", str(sample), "--spark", "--json")
    assert done.exit_code == 0, done.output
    report = json.loads(done.stdout)
    passed = {item["what"]: item["found"] for item in report["passed"]}
    assert passed["topic moma.public.artists"].startswith("table moma.artists, key artist_id")
    assert passed["Spark session"].startswith(f"Spark {command_spark.version}")
    assert [item["what"] for item in report["skipped"]] == ["clock"]

    shutil.rmtree(sample.parent / "bronze")
    done = headrace("doctor", str(sample), "--spark", "--json")
    assert done.exit_code == 1
    report = json.loads(done.stdout)
    (error,) = [finding for finding in report["findings"] if finding["severity"] == "error"]
    assert (error["name"], error["what"]) == ("connection-rejected", "no such folder")
    assert "sink iceberg" in {item["what"] for item in report["passed"]}
