"""Texts that become decimals. Java converts a text such as ``1e-400000000`` for hours, and a batch would never end."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from headrace.errors import ConfigError
from headrace.spark.parsed_nodes import class_name, find_span, items

#: Exponents of five digits, and texts of more than 1,000 characters: no decimal of Spark needs them.
_EXTREME = "(?s)[eE](?=[-+]?[0-9]{5})|^(?=.{1001})"


def limit_decimal_text(sql: str) -> str:
    """Return SQL of a text for a cast to DECIMAL: an extreme number becomes a text that is no number."""
    return f"regexp_replace({sql}, '{_EXTREME}', 'x')"


def limit_decimals(text: str, analyzed: Any) -> str:
    """Return a SQL expression whose casts of texts to DECIMAL give null for extreme numbers.

    ``analyzed``: the expression as Spark has analyzed it.
    """
    places = {find_span(node) for node in _walk(analyzed) if _is_decimal_of_text(node)}
    if not places:
        return text
    from pyspark import SparkContext

    jvm: Any = SparkContext._jvm  # noqa: SLF001 - PySpark's public API has no parser
    parsed = jvm.org.apache.spark.sql.execution.SparkSqlParser().parseExpression(text)
    casts = {find_span(node): node for node in _walk(parsed) if class_name(node) in ("Cast", "UnresolvedFunction")}
    spans = {find_span(next(items(casts[place].children()))) for place in places & casts.keys() - {None}}
    if len(spans) < len(places) or None in spans:
        raise ConfigError(f"{text!r} needs a text as a DECIMAL", fix="write CAST(… AS DECIMAL(…)) for the text")
    opening, closing = limit_decimal_text("…").split("…")
    added = [edge for start, end in filter(None, spans) for edge in ((start, opening), (end, closing))]
    for place, part in sorted(added, reverse=True):
        text = text[:place] + part + text[place:]
    return text


def _is_decimal_of_text(node: Any) -> bool:
    if class_name(node) != "Cast" or not str(node.dataType().typeName()).startswith("decimal"):
        return False
    return str(node.child().dataType().typeName()) == "string"


def _walk(node: Any) -> Iterator[Any]:
    yield node
    for child in items(node.children()):
        yield from _walk(child)
