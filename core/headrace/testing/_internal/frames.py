"""DataFrames of a few rows that no job and no Python process makes: kits have hundreds."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: A column may be called as Spark calls the one for what it cannot parse.
_OPTIONS = {"columnNameOfCorruptRecord": "_headrace_kit_corrupt"}


def make_frame(session: SparkSession, schema: str, rows: Sequence[Mapping[str, Any]]) -> DataFrame:
    """The rows, column → value, with the columns of ``schema`` (SQL). No plan shows their values."""
    from pyspark.sql import functions as F

    texts = [json.dumps(row, default=_encode).replace("\\", "\\\\").replace("'", "\\'") for row in rows]
    values = ", ".join(f"('{text}')" for text in texts) or "('{}')"
    # An inline table is a local relation, and so is what Spark makes of it without a job.
    frame = session.sql(f"SELECT row FROM VALUES {values} AS given(row)")  # noqa: S608 - a test's own rows
    parsed = frame.where(F.lit(bool(rows))).select(F.from_json("row", schema, _OPTIONS).alias("row"))
    return parsed.select("row.*")


def _encode(value: Any) -> str:
    """What JSON has no way to write, as Spark reads it."""
    return b64encode(value).decode() if isinstance(value, bytes | bytearray) else str(value)
