"""Tuning of py4j, PySpark's connection to the JVM.

The modules replace private parts of py4j and PySpark. They only save time: every result is the same without them. If another release of
either breaks them, ``HEADRACE_PY4J_TUNING=off`` turns all of them off.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: The environment variable that turns the tuning off.
SWITCH = "HEADRACE_PY4J_TUNING"


def tune_py4j(spark: SparkSession) -> None:
    """Apply all tuning to a session's connection, unless the switch is ``off``. Repeated calls have no effect."""
    if os.environ.get(SWITCH, "").lower() == "off":
        return
    # They import py4j, which is not installed without PySpark.
    from headrace.spark.tuning.lookup_cache import cache_jvm_lookups
    from headrace.spark.tuning.quickack import enable_tcp_quickack

    cache_jvm_lookups(spark)
    enable_tcp_quickack(spark)
