"""Values that take part in a plan without being seen in it."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

#: Names the views: the same name for the same text in this process, which tells nobody anything about the text.
_NAMING = secrets.token_bytes(32)


def secret_literal(spark: SparkSession, text: str) -> Column:
    """``text`` as a column whose value no ``explain``, event log or error shows.

    A literal would be printed with the plan. This is a subquery on a one-row relation, and relations print no rows.
    It leaves a temporary view in ``spark``.
    """
    from pyspark.sql import functions as F

    jvm: Any = spark._jvm  # noqa: SLF001 - from Python rows, PySpark would start a worker for this one value
    view = "_headrace_hidden_" + hmac.new(_NAMING, text.encode(), hashlib.sha256).hexdigest()[:32]
    cells = spark.sparkContext._gateway.new_array(jvm.java.lang.Object, 1)  # type: ignore[union-attr]  # noqa: SLF001
    cells[0] = text
    rows = jvm.java.util.ArrayList()
    rows.add(jvm.org.apache.spark.sql.RowFactory.create(cells))
    schema = jvm.org.apache.spark.sql.types.DataType.fromDDL("value string")
    spark._jsparkSession.createDataFrame(rows, schema).createOrReplaceTempView(view)  # noqa: SLF001
    return F.expr(f"(SELECT value FROM {view})")  # noqa: S608 - the view's name is a digest
