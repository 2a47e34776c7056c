"""Messages and causes of Spark and Java errors, and known errors of libraries."""

from __future__ import annotations

from headrace.spark.error_text import causes, find_missing_file, first_line, full_text, hide_values, text_after_raised
from headrace.spark.known_error import KnownError, explain_known_error

__all__ = [
    "KnownError",
    "causes",
    "explain_known_error",
    "find_missing_file",
    "first_line",
    "full_text",
    "hide_values",
    "text_after_raised",
]
