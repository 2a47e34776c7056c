"""Strict parsing of JSON strings, with or without a schema: one document per string."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from headrace_sources.limits import JSON_LEVELS

if TYPE_CHECKING:
    from pyspark.sql import Column

#: Columns: the record's string; its parsed value; and the value in the table's types.
BODY, PARSED, TABLE = "_headrace_body", "_headrace_parsed", "_headrace_table"
CORRUPT = "_headrace_corrupt"
#: A null with a null schema: a tombstone of old converters.
NULL_WITH_SCHEMA = r'^\s*\{\s*"schema"\s*:\s*null\s*,\s*"payload"\s*:\s*null\s*\}\s*$'


def parse_options(options: Mapping[str, str]) -> dict[str, str]:
    """Return options of Spark's JSON reader that mark strings that do not fit the type."""
    return {**options, "columnNameOfCorruptRecord": CORRUPT, "mode": "PERMISSIVE"}


def has_schema(text: Column) -> Column:
    """Return whether a string has only a schema, or null in its place, and a payload, as from JsonConverter."""
    from pyspark.sql import functions as F

    likely = text.rlike(r'^\s*\{\s*"(schema|payload)"\s*:')
    is_pair = F.array_sort(F.json_object_keys(text)) == F.array(F.lit("payload"), F.lit("schema"))
    has_type = F.get_json_object(text, "$.schema.type").isNotNull()
    is_valid = has_type | F.get_json_object(text, "$.schema").isNull()
    return F.when(likely, F.coalesce(is_pair & is_valid, F.lit(False))).otherwise(F.lit(False))


def is_too_deep(text: Column) -> Column:
    """Return whether a string has more levels of objects and lists than ``JSON_LEVELS``, or unbalanced brackets."""
    from pyspark.sql import functions as F

    # Levels are only counted if there are that many opening brackets.
    likely = text.rlike(rf"^(?:[^\[{{]*+[\[{{]){{{JSON_LEVELS + 1}}}")
    without_escapes = F.regexp_replace(text, r"\\.", "")
    brackets = F.regexp_replace(without_escapes, r'"[^"]*"|[^\[\]{}"]+', "")

    # Each step removes one level. An array of the brackets would need a hundred times the memory of the string.
    levels = F.sequence(F.lit(1), F.lit(JSON_LEVELS))
    rest = F.aggregate(levels, brackets, lambda text, _: F.regexp_replace(text, r"\[\]|\{\}", ""))
    return F.when(likely, rest != "").otherwise(F.lit(False))


def has_several_documents(text: Column, options: Mapping[str, str]) -> Column:
    """Return whether a string holds several documents: Spark would silently read only the first."""
    from pyspark.sql import functions as F

    if any(key.startswith("allow") and value == "true" for key, value in options.items()):
        return F.lit(False)  # the parse below accepts only standard JSON
    # The second parse is only done if something follows a closing brace.
    likely = text.rlike(r"\}\s*([^\s,}\]]|,\s*\{)")
    return likely & ~F.json_array_length(F.concat(F.lit("["), text, F.lit("]"))).eqNullSafe(F.lit(1))
