"""Literals whose values do not appear in plans."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

#: Key of the view names: the same value has the same name in this process, and the name reveals nothing about the value.
_KEY = secrets.token_bytes(32)


def secret_literal(spark: SparkSession, text: str) -> Column:
    """Return ``text`` as a column whose value is hidden from ``explain``, the event log and errors.

    A literal is printed with its plan. This column is a subquery on a one-row relation, which prints no rows.
    It creates a temporary view in ``spark``.
    """
    from pyspark.sql import functions as F

    jvm: Any = spark._jvm  # noqa: SLF001 - for Python rows, PySpark starts a worker process
    view = "_headrace_hidden_" + hmac.new(_KEY, text.encode(), hashlib.sha256).hexdigest()[:32]
    cells = spark.sparkContext._gateway.new_array(jvm.java.lang.Object, 1)  # type: ignore[union-attr]  # noqa: SLF001
    cells[0] = text
    rows = jvm.java.util.ArrayList()
    rows.add(jvm.org.apache.spark.sql.RowFactory.create(cells))
    schema = jvm.org.apache.spark.sql.types.DataType.fromDDL("value string")
    spark._jsparkSession.createDataFrame(rows, schema).createOrReplaceTempView(view)  # noqa: SLF001
    return F.expr(f"(SELECT value FROM {view})")  # noqa: S608 - the view's name is a digest
