"""Runs on patches and lines of Spark that the suite is not run on, each in an environment of its own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import fastavro
import pytest
from tests.support import dist
from tests.support.dist import ROOT, run
from tests.support.venv import Venv

pytestmark = [pytest.mark.nightly, pytest.mark.dist, pytest.mark.slow, pytest.mark.spark, pytest.mark.one_spark]

EVENTS = ROOT / "tests/data/msk_demo/envelope"
ICEBERG, FILES = {"iceberg": {"warehouse": "lake"}}, {"files": {"path": "lake", "format": "avro"}}
UNTESTED = "headrace is not tested on Spark {}; it is tested on Spark 3.5 and 4.1"


@pytest.mark.parametrize(
    ("spark", "py4j", "sink", "expected"),
    [
        ("3.5.5", "0.10.9.7", ICEBERG, []),
        ("3.5.9", "0.10.9.7", ICEBERG, []),
        ("4.0.5", "0.10.9.9", ICEBERG, [UNTESTED.format("4.0.5"), "apache/iceberg#16600"]),
        ("4.1.4", "0.10.9.9", ICEBERG, []),
        ("4.2.1", "0.10.9.9", FILES, [UNTESTED.format("4.2.1")]),
        ("4.3.0", "0.10.9.9", FILES, [UNTESTED.format("4.3.0"), "the jars are those of Spark 4.2.0"]),
    ],
)
def test_files_become_a_table(
    spark: str, py4j: str, sink: dict[str, Any], expected: list[str], distributions: dist.Built, tmp_path: Path
) -> None:
    wheel = f"headrace @ {distributions.wheel.as_uri()}"
    environment = Venv(tmp_path / "venv", wheel, f"pyspark=={spark}", f"py4j=={py4j}")
    config = {
        "name": "artists",
        "source": {"files": {"path": str(EVENTS), "format": "avro"}},
        "tables": [{"source": "moma.public.artists", "key": ["artist_id"], "target": "moma.artists"}],
        "transforms": [{"unwrap": {"delete.tombstone.handling.mode": "drop"}}],  # a files sink only appends
        "sink": sink,
        "checkpoint": "checkpoint",
        "spark": {"spark.master": "local[2]", "spark.sql.shuffle.partitions": 2, "spark.driver.memory": "1g"},
    }
    (tmp_path / "pipeline.yaml").write_text(json.dumps(config))
    done = run([environment.bin / "headrace", "run", "pipeline.yaml", "--available-now"], tmp_path)
    printed = done.stdout + done.stderr
    assert "900 rows in, 900 applied" in printed
    assert [text for text in expected if text not in printed] == []
    assert ("is not tested on Spark" in printed) == bool(expected)
    shown = environment.headrace(
        "show", "pipeline.yaml", "moma.artists", "--limit", "1000", "--format", "json", cwd=tmp_path
    )
    rows = [json.loads(line) for line in shown.splitlines() if line.startswith("{")]
    assert sorted(rows, key=lambda row: int(row["artist_id"])) == read_rows()


def read_rows() -> list[dict[str, Any]]:
    """Return the rows after the events, which are one per key."""
    rows: list[dict[str, Any]] = []
    for file in sorted(EVENTS.rglob("*.avro")):
        with file.open("rb") as opened:
            rows += [event["after"] for event in fastavro.reader(opened)]  # type: ignore[misc, call-overload, index]
    return sorted(rows, key=lambda row: int(row["artist_id"]))
