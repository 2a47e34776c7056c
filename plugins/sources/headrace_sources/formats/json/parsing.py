"""How JSON texts are parsed, with a schema or without: strictly, one document a text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column

#: The record's text; what is parsed of it, as it is there; and as a table has it.
BODY, PARSED, TABLE = "_headrace_body", "_headrace_parsed", "_headrace_table"
CORRUPT = "_headrace_corrupt"
#: Levels of a record. Spark's parser, and whatever walks its type, goes a call deeper for each.
MAX_DEPTH = 100
#: A null with a schema of null, as old converters write a tombstone.
NULL_WITH_SCHEMA = r'^\s*\{\s*"schema"\s*:\s*null\s*,\s*"payload"\s*:\s*null\s*\}\s*$'


def parse_options(options: Mapping[str, str]) -> dict[str, str]:
    """Options of Spark's JSON reader by which a text that does not fit its type is told from one that does."""
    return {**options, "columnNameOfCorruptRecord": CORRUPT, "mode": "PERMISSIVE"}


def is_too_deep(text: Column) -> Column:
    """Whether a text has more levels of objects and lists than ``MAX_DEPTH``."""
    from pyspark.sql import functions as F

    # So many brackets that open make it likely; only then is counting worth it.
    likely = text.rlike(rf"^(?:[^\[{{]*+[\[{{]){{{MAX_DEPTH + 1}}}")
    without_escapes = F.regexp_replace(text, r"\\.", "")
    brackets = F.regexp_replace(without_escapes, r'"[^"]*"|[^\[\]{}"]+', "")

    def count(state: Column, bracket: Column) -> Column:
        depth = state.getField("depth") + F.when(bracket.isin("[", "{"), 1).when(bracket.isin("]", "}"), -1).otherwise(
            0
        )
        return F.struct(depth.alias("depth"), F.greatest(state.getField("most"), depth).alias("most"))

    start = F.struct(F.lit(0).alias("depth"), F.lit(0).alias("most"))
    most = F.aggregate(F.split(brackets, ""), start, count, lambda state: state.getField("most"))
    return F.when(likely, most > MAX_DEPTH).otherwise(F.lit(False))


def has_several_documents(text: Column, options: Mapping[str, str]) -> Column:
    """Whether a text holds more than one document: Spark would read the first and say nothing of the others."""
    from pyspark.sql import functions as F

    if any(key.startswith("allow") and value == "true" for key, value in options.items()):
        return F.lit(False)  # what is counted below is JSON as it is written by the book
    # What follows a brace makes it likely; only then is counting worth a second parse.
    likely = text.rlike(r"\}\s*([^\s,}\]]|,\s*\{)")
    return likely & ~F.json_array_length(F.concat(F.lit("["), text, F.lit("]"))).eqNullSafe(F.lit(1))
