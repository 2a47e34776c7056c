"""Temporary settings of a session."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Settings for small tables. To generate and compile Java code for a plan takes longer than to interpret the plan, and adaptive
#: planning between stages has no benefit. Delta would start many tasks to read a small table and to list its folder.
INTERPRETED = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    "spark.databricks.delta.snapshotPartitions": "2",
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "2",
}


def interpret_plans(folder: Path) -> dict[str, str]:
    """Return the environment of a process whose sessions interpret plans instead of generating code."""
    folder.mkdir(exist_ok=True)
    lines = "".join(f"{key} {value}\n" for key, value in INTERPRETED.items())
    (folder / "spark-defaults.conf").write_text(lines, encoding="utf-8")
    return {"SPARK_CONF_DIR": str(folder)}


@contextmanager
def case_sensitive(spark: SparkSession) -> Iterator[None]:
    """Make column names case-sensitive in a block."""
    with change_settings(spark, {"spark.sql.caseSensitive": "true"}):
        yield


@contextmanager
def compile_plans(spark: SparkSession) -> Iterator[None]:
    """Compile and adapt plans in a block, as in sessions of users; this includes sessions cloned from it."""
    with change_settings(spark, dict.fromkeys(INTERPRETED)):
        yield


@contextmanager
def change_settings(spark: SparkSession, conf: Mapping[str, str | None]) -> Iterator[None]:
    """Change settings of the session in a block; None removes one."""
    before = {key: spark.conf.get(key, None) for key in conf}
    _set(spark, conf)
    try:
        yield
    finally:
        _set(spark, before)


def _set(spark: SparkSession, conf: Mapping[str, str | None]) -> None:
    for key, value in conf.items():
        if value is None:
            spark.conf.unset(key)
        else:
            spark.conf.set(key, value)
