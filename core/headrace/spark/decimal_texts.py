"""Texts that become decimals. Java converts a text such as ``1e-400000000`` for hours, and a batch would never end."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from headrace.errors import ConfigError
from headrace.spark.parsed_nodes import class_name, find_span, items

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: Digits of a number's exponent, and characters of a number: no decimal of Spark needs more. Spark computes 10 to the power of the
#: exponent, and Java parses the digits in quadratic time.
EXPONENT_DIGITS, DECIMAL_CHARACTERS = 4, 1000
_EXTREME = f"(?s)[eE](?=[-+]?[0-9]{{{EXPONENT_DIGITS + 1}}})|^(?=.{{{DECIMAL_CHARACTERS + 1}}})"
#: Names of the type in SQL.
_DECIMAL = re.compile(r"\b(?:decimal|dec|numeric)\b", re.IGNORECASE)
#: Characters of the SQL in a message.
_SHOWN = 200


def limit_decimal_text(sql: str) -> str:
    """Return SQL of a text for a cast to DECIMAL: an extreme number becomes a text that is no number."""
    return f"regexp_replace({sql}, '{_EXTREME}', 'x')"


def limit_decimals(text: str, analyzed: Any) -> str:
    """Return a SQL expression whose casts of texts to DECIMAL give null for extreme numbers.

    ``analyzed``: the expression as Spark has analyzed it.
    """
    return _limit_casts(text, _walk(analyzed), lambda parser: _walk(parser.parseExpression(text)))


def limit_query(session: SparkSession, sql: str) -> DataFrame:
    """Return the rows of a query whose casts of texts to DECIMAL give null for extreme numbers. ConfigError if it cannot be limited."""
    rows = session.sql(sql)
    if not _DECIMAL.search(sql):
        return rows
    analyzed = rows._jdf.queryExecution().analyzed()  # noqa: SLF001 - PySpark only prints plans
    limited = _limit_casts(sql, _walk_plan(analyzed), lambda parser: _walk_plan(parser.parsePlan(sql)))
    # Spark names a column without an alias by its expression.
    return rows if limited == sql else session.sql(limited).toDF(*rows.columns)


def _limit_casts(text: str, analyzed: Iterable[Any], parse: Callable[[Any], Iterable[Any]]) -> str:
    """Return SQL with limits for texts. ``analyzed``: its expressions; ``parse``: returns them with Spark's parser, not analyzed."""
    are_texts = {find_span(node): _is_text(node.child()) for node in analyzed if _is_decimal(node)}
    places = {place for place, is_text in are_texts.items() if is_text}
    if not places:
        return text
    from pyspark import SparkContext

    jvm: Any = SparkContext._jvm  # noqa: SLF001 - PySpark's public API has no parser
    parsed = parse(jvm.org.apache.spark.sql.execution.SparkSqlParser())
    casts = {find_span(node): node for node in parsed if _is_cast(node)}
    # Spark replaces a repeated expression, as in GROUP BY and ORDER BY, by its result. Both must stay equal.
    written = {_fold(text, place) for place in places & casts.keys()}
    limited = {place for place in casts if are_texts.get(place, _fold(text, place) in written)}
    spans = {find_span(next(items(casts[place].children()))) for place in limited}
    if not places <= limited or None in spans:
        what = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
        raise ConfigError(f"{what!r} needs a text as a DECIMAL", fix="write CAST(… AS DECIMAL(…)) for the text")
    opening, closing = limit_decimal_text("…").split("…")
    added = [edge for start, end in filter(None, spans) for edge in ((start, opening), (end, closing))]
    for place, part in sorted(added, reverse=True):
        text = text[:place] + part + text[place:]
    return text


def _fold(text: str, place: tuple[int, int] | None) -> str | None:
    """Return a part of the SQL without differences of case and spaces."""
    return None if place is None else re.sub(r"\s+", "", text[slice(*place)]).lower()


def _is_cast(node: Any) -> bool:
    """Return whether a parsed expression is CAST or a call of ``decimal``. Spark adds casts in calls of other functions itself."""
    if class_name(node) == "UnresolvedFunction":
        return str(node.nameParts().last()).lower() == "decimal"
    return class_name(node) == "Cast"


def _is_decimal(node: Any) -> bool:
    return class_name(node) == "Cast" and str(node.dataType().typeName()).startswith("decimal")


def _is_text(node: Any) -> bool:
    return str(node.dataType().typeName()) == "string"


def _walk(node: Any) -> Iterator[Any]:
    yield node
    for child in items(node.children()):
        yield from _walk(child)


def _walk_plan(plan: Any) -> Iterator[Any]:
    """Yield the expressions of a query, also of its subqueries and its definitions in WITH, without those of the views that it reads."""
    if class_name(plan) == "View":
        return
    for expression in items(plan.expressions()):
        yield from _walk(expression)
    for child in (*items(plan.children()), *items(plan.innerChildren())):
        yield from _walk_plan(child)
