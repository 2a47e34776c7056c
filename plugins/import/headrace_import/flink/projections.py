"""Projections and filters of Flink CDC as transforms."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from headrace_import.connect.smt import NotImportableError

_ALIASES = (
    re.compile(r"(?P<expression>.+)\s+AS\s+`?(?P<name>[A-Za-z_]\w*)`?", re.IGNORECASE | re.DOTALL),
    re.compile(r"(?P<expression>.+[)'])\s+(?!END\b)`?(?P<name>[A-Za-z_]\w*)`?", re.IGNORECASE | re.DOTALL),
)
_QUOTED = re.compile(r"\A`([^`]*)`\Z")
_COLUMN = re.compile(r"`?(?P<name>[A-Za-z_]\w*)`?")
#: Metadata columns → field of the event for ``add.fields``.
_METADATA = {
    "__namespace_name__": "source.db",
    "__schema_name__": "source.schema",
    "__table_name__": "source.table",
    "__data_event_type__": "op",
}
#: Functions and words with the same meaning and the same type in Spark.
_SAME = frozenset(
    """
    abs round upper lower trim concat substr substring char_length regexp_replace coalesce if nullif cast in and or
    not between case when then else end is null as decimal varchar char exists power sqrt exp ln log
    """.split()  # noqa: SIM905 - a list has a line for each name
)
#: Part of an expression → why Spark gives another result, and an expression with that of Flink CDC.
_DIFFERENT = (
    (
        r"/",
        "Flink CDC divides integers to integers, and Spark to fractions",
        "`compute` with `/`, or with `div` for integers",
    ),
    (
        r"\[",
        "Flink CDC counts the elements of an array from 1, and Spark from 0",
        "`compute` with `element_at`, which counts from 1",
    ),
    (
        r"\b(?:ceil|floor)\s*\(",
        "CEIL and FLOOR of Flink CDC keep the type of a number, and those of Spark return BIGINT or a shorter DECIMAL",
        "`compute` with a cast to the type of the column, such as `CAST(CEIL(price) AS DOUBLE)`",
    ),
    (
        r"%|\bmod\s*\(",
        "the remainder has the type of the divisor in Flink CDC, and the wider of both types in Spark",
        "`compute` with a cast to the type of the divisor, such as `CAST(id % 10 AS INT)`",
    ),
    (
        r"\blike\b",
        "LIKE of Flink CDC searches a regular expression, and LIKE of Spark has the wildcards % and _",
        "`compute` or `filter` with `rlike`, or with `LIKE` for wildcards",
    ),
    (
        r"\btrim\s*\([^()]*\bfrom\b",
        "TRIM of Flink CDC removes white space, whatever characters it names",
        "`compute` with `trim(name)`, or with `TRIM(… FROM …)` of Spark",
    ),
)
_NOT_DETERMINISTIC = re.compile(
    r"\b(uuid|now|localtime|localtimestamp|current_time|current_date|current_timestamp|rand)\b", re.IGNORECASE
)
_TEXT = re.compile(r"'(?:[^']|'')*'")


@dataclass
class Projection:
    """Columns of a projection. ``keeps_all``: all others stay; ``added``: column → field of the event."""

    keeps_all: bool = False
    names: list[str] = field(default_factory=list)
    computed: dict[str, str] = field(default_factory=dict)
    added: dict[str, str] = field(default_factory=dict)


def parse_projection(text: str) -> Projection:
    """Return the columns of a projection. NotImportableError for an item without a counterpart."""
    projection = Projection()
    for item in _split_items(text):
        if item in ("*", "\\*"):
            projection.keeps_all = True
            continue
        match = next((found for form in (_COLUMN, *_ALIASES) if (found := form.fullmatch(item))), None)
        if match is None:
            raise NotImportableError("an expression of its projection has no name", "`compute: {columns: {NAME: …}}`")
        name, expression = match["name"], match.groupdict().get("expression", item)
        column = _QUOTED.sub(r"\1", expression)
        projection.names.append(name)
        if column in _METADATA:
            projection.added[name] = _METADATA[column]
        elif column != name:
            # Another name than a plain one needs its quotes.
            projection.computed[name] = translate_expression(column if _COLUMN.fullmatch(column) else expression)
    return projection


def translate_expression(text: str) -> str:
    """Return an expression of Flink CDC in Spark's SQL. NotImportableError if one of its names may mean something else."""
    words = _TEXT.sub("''", text)
    for name in re.findall(r"\b__\w+__\b", words):
        if name in _METADATA:
            raise NotImportableError(f"{name} is no column of the row", f"`unwrap: {{add.fields: {_METADATA[name]}}}`")
    if match := _NOT_DETERMINISTIC.search(words):
        why = f"{match[0]} has another value when a batch is repeated"
        raise NotImportableError(why, "a field of the event, such as `add.fields: source.ts_ms`")
    _check_same_result(text, re.sub(r"`[^`]*`", "``", words))
    unknown = sorted({name for name in re.findall(r"\b(\w+)\s*\(", words) if name.lower() not in _SAME})
    if unknown:
        why = f"{', '.join(unknown)} may have another meaning in Spark"
        raise NotImportableError(why, "write it with `compute` or `filter`")
    if '"' in words or "\\" in text:
        raise NotImportableError(
            "Spark reads quotes and backslashes in another way", "write it with `compute` or `filter`"
        )
    return re.sub(r"\b(VARCHAR|CHAR)\b(?!\s*\()", "STRING", text, flags=re.IGNORECASE).strip()


def _check_same_result(text: str, words: str) -> None:
    """Raise NotImportableError for an expression whose result has another value or type in Spark. ``words``: without quoted text."""
    for part, why, fix in _DIFFERENT:
        if re.search(part, words, re.IGNORECASE):
            raise NotImportableError(why, fix)
    if "$" in text and re.search(r"\bregexp_replace\s*\(", words, re.IGNORECASE):
        why = "REGEXP_REPLACE of Flink CDC inserts a `$` as it is, and that of Spark the group of a match"
        raise NotImportableError(why, "`compute` with a backslash before each `$` of the replacement")


def _split_items(text: str) -> Iterator[str]:
    """Yield the items of a list with commas, outside of quotes and parentheses."""
    depth, start, quoted = 0, 0, False
    for position, character in enumerate(text):
        quoted ^= character == "'"
        depth += 0 if quoted else {"(": 1, ")": -1}.get(character, 0)
        if character == "," and not depth and not quoted:
            yield text[start:position].strip()
            start = position + 1
    if text[start:].strip():
        yield text[start:].strip()
