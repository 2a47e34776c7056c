"""Jars with which sinks write Avro files."""

from __future__ import annotations

from collections.abc import Mapping

#: Spark releases them with each patch. The patches that are missing here have the jars of the nearest one.
AVRO_JARS: Mapping[str, tuple[str, ...]] = {
    **{patch: (f"org.apache.spark:spark-avro_2.12:{patch}",) for patch in ("3.5.5", "3.5.6", "3.5.7", "3.5.9")},
    **{patch: (f"org.apache.spark:spark-avro_2.13:{patch}",) for patch in ("4.0.0", "4.0.2", "4.1.1", "4.2.0")},
}
