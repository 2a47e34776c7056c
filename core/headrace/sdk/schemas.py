"""Helpers for schemas: promotion, projection, names, and writer schemas that a batch was not planned with."""

from __future__ import annotations

from headrace.schema.file_types import check_names, widen_small_ints
from headrace.schema.projection import convert_fitting, convert_type, is_same_type, project
from headrace.schema.promotion import add_missing_fields, find_spellings, promote, union_schemas
from headrace.sdk.format import fail_on_unknown_schema, find_unknown_schemas

__all__ = [
    "add_missing_fields",
    "check_names",
    "convert_fitting",
    "convert_type",
    "fail_on_unknown_schema",
    "find_spellings",
    "find_unknown_schemas",
    "is_same_type",
    "project",
    "promote",
    "union_schemas",
    "widen_small_ints",
]
