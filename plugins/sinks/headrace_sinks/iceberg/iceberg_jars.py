"""Jars of Iceberg by line of Spark."""

from __future__ import annotations

from collections.abc import Mapping

ICEBERG_JARS: Mapping[str, tuple[str, ...]] = {
    "3.5": ("org.apache.iceberg:iceberg-spark-runtime-3.5_2.12:1.12.0",),
    # Iceberg 1.12 has no build for Spark 4.0.
    "4.0": ("org.apache.iceberg:iceberg-spark-runtime-4.0_2.13:1.11.0",),
    "4.1": ("org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0",),
}
ICEBERG_CAUTIONS: Mapping[str, str] = {
    "4.0": "MERGE on Iceberg 1.11, the newest release for Spark 4.0, may run out of memory (apache/iceberg#16600). "
    "Use Spark 3.5 or 4.1, which have Iceberg 1.12",
}
