"""DataFrames of a few rows, created without a job and without a Python process, because kits need hundreds."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: Replaces Spark's column name for corrupt records, which a test's column may have.
_OPTIONS = {"columnNameOfCorruptRecord": "_headrace_kit_corrupt"}


def make_frame(session: SparkSession, schema: str, rows: Sequence[Mapping[str, Any]]) -> DataFrame:
    """Return rows (column → value) with the columns of ``schema`` (SQL). Plans do not show their values."""
    from pyspark.sql import functions as F

    texts = [json.dumps(row, default=_encode).replace("\\", "\\\\").replace("'", "\\'") for row in rows]
    values = ", ".join(f"('{text}')" for text in texts) or "('{}')"
    # An inline table is a local relation, and Spark evaluates it without a job.
    frame = session.sql(f"SELECT row FROM VALUES {values} AS rows(row)")  # noqa: S608 - rows of a test
    parsed = frame.where(F.lit(bool(rows))).select(F.from_json("row", schema, _OPTIONS).alias("row"))
    return parsed.select("row.*")


def _encode(value: Any) -> str:
    """Encode a value without a JSON type in the form that Spark parses."""
    return b64encode(value).decode() if isinstance(value, bytes | bytearray) else str(value)
