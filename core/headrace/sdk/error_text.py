"""Messages and causes of Spark and Java errors."""

from __future__ import annotations

from headrace.spark.error_text import causes, find_missing_file, first_line, full_text

__all__ = ["causes", "find_missing_file", "first_line", "full_text"]
