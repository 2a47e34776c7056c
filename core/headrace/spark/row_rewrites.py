"""Common forms of SQL that fail for some values, written as forms that return null."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, NamedTuple

from headrace.errors import ConfigError
from headrace.spark.parsed_nodes import class_name, find_span, is_interval, items, read_literal
from headrace.spark.row_arguments import LITERALS, PARSED, find_long_year

#: Spark's classes of operators → the function that returns null for a value out of range.
TRIED = {"Add": "try_add", "Subtract": "try_subtract"}
_OPERATORS = {"Add": "+", "Subtract": "-"}
_COMMENT = re.compile(r"--|/\*")


class _Edit(NamedTuple):
    """Part of a text, and a function that returns its new form. The function gets one that returns the new form of a smaller part."""

    start: int
    end: int
    make: Callable[[Callable[[int, int], str]], str]


@lru_cache(1024)
def rewrite(text: str) -> str:
    """Return a SQL expression in which arithmetic with intervals and the parsing of texts return null for a value out of range."""
    from pyspark import SparkContext

    jvm: Any = SparkContext._jvm  # noqa: SLF001 - PySpark's public API has no parser
    tree = jvm.org.apache.spark.sql.execution.SparkSqlParser().parseExpression(text)
    edits = sorted(_list_edits(text, tree), key=lambda edit: (edit.start, -edit.end))

    def render(start: int, end: int) -> str:
        parts, at = [], start
        for edit in edits:
            if edit.start >= at and edit.end <= end:
                parts += [text[at : edit.start], edit.make(render)]
                at = edit.end
        return "".join([*parts, text[at:end]])

    return render(0, len(text))


def find_operator(text: str, node: Any) -> int | None:
    """Return the place of the operator of a sum or a difference with an interval; None for another node, and if comments hide it."""
    kind = class_name(node)
    if kind not in TRIED or not any(map(is_interval, items(node.children()))) or _COMMENT.search(text):
        return None
    span = find_span(node.children().apply(1))
    before = text[: span[0]].rstrip(" \t\r\n(") if span else ""
    return len(before) - 1 if before.endswith(_OPERATORS[kind]) else None


def _list_edits(text: str, node: Any) -> Iterator[_Edit]:
    """Yield the edits of a parsed expression, without those of a sum whose operator is not found."""
    kind = class_name(node)
    if (place := find_operator(text, node)) is not None and (span := find_span(node)):
        start, end = span
        yield _Edit(start, end, lambda render: f"{TRIED[kind]}({render(start, place)}, {render(place + 1, end)})")
    elif kind == "UnresolvedFunction" and (guard := _find_guard(node)):
        yield _make_guard(text, node, guard)
    for child in items(node.children()):
        yield from _list_edits(text, child)


def _make_guard(text: str, node: Any, guard: str) -> _Edit:
    """Return the edit of a call whose first argument becomes null if it matches a regular expression."""
    call, argument = find_span(node), find_span(node.arguments().apply(0))
    if call is None or argument is None:
        raise ConfigError(
            f"{text!r} parses a text that is no column of the row", fix="write a name, a text or a function"
        )
    (start, end), (first, last) = call, argument

    def make(render: Callable[[int, int], str]) -> str:
        value = render(first, last)
        guarded = f"if(rlike(CAST({value} AS STRING), '{guard}'), NULL, {value})"
        return f"{text[start:first]}{guarded}{render(last, end)}"

    return _Edit(start, end, make)


def _find_guard(node: Any) -> str | None:
    """Return the regular expression of texts with years out of range for a call that parses texts with a format."""
    name, arguments = ".".join(map(str, items(node.nameParts()))).lower(), list(items(node.arguments()))
    if LITERALS.get(name, {}).get(1) is not PARSED or len(arguments) < 2:
        return None
    return find_long_year(str(read_literal(arguments[1])))
