"""Helpers for Spark columns."""

from __future__ import annotations

from headrace.schema.field_paths import find_field, find_opaque_type, list_row_texts
from headrace.spark.columns import (
    any_of,
    barrier,
    fold_name,
    match_names,
    name_fold,
    quote_name,
    reuse_columns,
    select_texts,
)
from headrace.spark.secret_literals import secret_literal

__all__ = [
    "any_of",
    "barrier",
    "find_field",
    "find_opaque_type",
    "fold_name",
    "list_row_texts",
    "match_names",
    "name_fold",
    "quote_name",
    "reuse_columns",
    "secret_literal",
    "select_texts",
]
