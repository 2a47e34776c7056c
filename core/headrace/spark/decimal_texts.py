"""Texts that become decimals. Java converts a text such as ``1e-400000000`` for hours, and a batch would never end."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from headrace.errors import ConfigError
from headrace.spark.row_calls import class_name, items

#: Exponents of five digits, and texts of more than 1,000 characters: no decimal of Spark needs them.
_EXTREME = "(?s)[eE](?=[-+]?[0-9]{5})|^(?=.{1001})"


def limit_decimal_text(sql: str) -> str:
    """Return SQL of a text for a cast to DECIMAL: an extreme number becomes a text that is no number."""
    return f"regexp_replace({sql}, '{_EXTREME}', 'x')"


def limit_decimals(text: str, analyzed: Any) -> str:
    """Return a SQL expression whose casts of texts to DECIMAL give null for extreme numbers.

    ``analyzed``: the expression as Spark has analyzed it.
    """
    places = {_place(node) for node in _walk(analyzed) if _is_decimal_of_text(node)}
    if not places:
        return text
    from pyspark import SparkContext

    jvm: Any = SparkContext._jvm  # noqa: SLF001 - PySpark's public API has no parser
    parsed = jvm.org.apache.spark.sql.execution.SparkSqlParser().parseExpression(text)
    casts = {_place(node): node for node in _walk(parsed) if class_name(node) in ("Cast", "UnresolvedFunction")}
    if not places <= casts.keys():
        raise ConfigError(f"{text!r} needs a text as a DECIMAL", fix="write CAST(… AS DECIMAL(…)) for the text")
    opening, closing = limit_decimal_text("…").split("…")
    spans = {_place(next(_children(casts[place]))) for place in places}
    added = [(start, opening) for start, _ in spans] + [(end, closing) for _, end in spans]
    for place, part in sorted(added, reverse=True):
        text = text[:place] + part + text[place:]
    return text


def _is_decimal_of_text(node: Any) -> bool:
    if class_name(node) != "Cast" or not str(node.dataType().typeName()).startswith("decimal"):
        return False
    return str(node.child().dataType().typeName()) == "string"


def _place(node: Any) -> tuple[int, int]:
    """Return the place of a node in its text: start and end."""
    origin = node.origin()
    return (origin.startIndex().get(), origin.stopIndex().get() + 1) if origin.startIndex().isDefined() else (-1, -1)


def _children(node: Any) -> Iterator[Any]:
    return items(node.arguments() if class_name(node) == "UnresolvedFunction" else node.children())


def _walk(node: Any) -> Iterator[Any]:
    yield node
    for child in items(node.children()):
        yield from _walk(child)
