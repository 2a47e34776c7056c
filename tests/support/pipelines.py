"""Pipelines for tests: the table of artists from a bronze folder to a lake, with changes per test."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyspark

from headrace import Pipeline

#: Sinks that keep one row per key, on this Spark.
HAS_HUDI = not pyspark.__version__.startswith("4.")
TABLE_SINKS = ("iceberg", "hudi") if HAS_HUDI else ("iceberg",)
TOPIC, TABLE = "moma.public.artists", "moma.artists"
COLUMNS = {"artist_id": "int", "name": "string", "nationality": "string"}


def sink_block(kind: str, folder: Path | str, **options: Any) -> dict[str, Any]:
    where = {"iceberg": "warehouse"}.get(kind, "path")
    return {kind: {where: f"{folder}/lake/{kind}", **options}}


def pipeline(folder: Path, *sinks: str, **changed: Any) -> Pipeline:
    """Return a pipeline from ``folder/bronze`` (Avro) to ``folder/lake/<sink>``; ``changed`` replaces keys of the file."""
    return Pipeline.from_dict(configure(folder, *sinks, **changed))


def configure(folder: Path, *sinks: str, **changed: Any) -> dict[str, Any]:
    """Return the keys of the file of ``pipeline``."""
    config: dict[str, Any] = {
        "name": "artists",
        "source": {"files": {"path": str(folder / "bronze"), "format": "avro"}},
        "tables": [{"source": TOPIC, "key": ["artist_id"], "target": TABLE}],
        "transforms": [{"unwrap": {}}],
        "sinks": [sink_block(kind, folder) for kind in sinks or ("iceberg",)],
        "checkpoint": str(folder / "checkpoint"),
    }
    return {**config, **changed}


def rows(
    pipeline: Pipeline, spark: Any, table: str = TABLE, key: str = "artist_id", **options: Any
) -> list[dict[str, Any]]:
    """Return the business columns of a table, ordered by key."""
    return [row.asDict(recursive=True) for row in pipeline.read(table, spark=spark, **options).orderBy(key).collect()]
