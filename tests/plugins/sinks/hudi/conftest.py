"""Modules that are not collected on a Spark version that Hudi does not support; test_hudi_refused.py tests the error."""

from __future__ import annotations

from headrace.runtime.session.spark_support import list_lines, spark_line, spark_version
from headrace_sinks.hudi import HudiSink

collect_ignore = (
    ["test_hudi_sink.py", "test_hudi_readers.py", "test_hudi_values.py"]
    if spark_line(spark_version()) not in list_lines(HudiSink)
    else []
)
