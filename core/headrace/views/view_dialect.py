"""Spark's SQL as headrace parses and prints it: the name and the arguments of each function stay as written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import SqlglotError
from sqlglot.tokens import Token, TokenType  # type: ignore[attr-defined]  # they are public, and moved

from headrace.errors import ConfigError


class ViewDialect(Spark):
    """Spark's dialect without translations of functions, which are specific to a release of sqlglot."""

    class Parser(Spark.Parser):  # type: ignore[misc,valid-type]  # noqa: D106
        FUNCTIONS: ClassVar[dict[str, Any]] = {}
        # `array(1, 2)[0]` is an element, and not an array of 0.
        ARRAY_CONSTRUCTORS: ClassVar[dict[str, Any]] = {}


def tokenize_sql(sql: str) -> list[Token]:
    """Return the tokens of a statement without the semicolons at its end; ConfigError for invalid text."""
    try:
        tokens = list(ViewDialect().tokenize(sql))
    except SqlglotError as error:
        raise _describe_error(error) from None
    while tokens and tokens[-1].token_type is TokenType.SEMICOLON:
        tokens.pop()
    for token, following in pairwise(tokens):
        # sqlglot reads the function `window` at the start of GROUP BY as the clause WINDOW.
        if token.token_type is TokenType.WINDOW and following.token_type in (TokenType.L_PAREN, TokenType.DOT):
            token.token_type = TokenType.VAR
    return tokens


@contextmanager
def refuse_deep_nesting() -> Iterator[None]:
    """Raise ConfigError if the SQL in this block is nested more deeply than Python's stack allows."""
    try:
        yield
    except RecursionError:
        raise ConfigError(
            "the SQL is nested too deeply",
            where="sql",
            fix="remove parentheses, or move parts of the SQL into WITH",
        ) from None


def parse_query(sql: str, tokens: Sequence[Token] | None = None) -> exp.Query:
    """Return the syntax tree of one SELECT, or of several with UNION; ConfigError for another statement."""
    tokens = tokenize_sql(sql) if tokens is None else tokens
    try:
        statements = [tree for tree in ViewDialect().parser().parse(list(tokens), sql) if tree is not None]
    except SqlglotError as error:
        raise _describe_error(error) from None
    if len(statements) != 1:
        raise ConfigError(
            f"the SQL has {len(statements)} statements, and a view is one SELECT", where="sql", fix="write one SELECT"
        )
    (tree,) = statements
    while isinstance(tree, exp.Subquery) and not tree.alias:
        tree = tree.this
    if not isinstance(tree, exp.Select | exp.SetOperation):
        statement = (tree.name if isinstance(tree, exp.Command) else tree.key).upper()
        raise ConfigError(f"the SQL is not a SELECT, but {statement}", where="sql", fix="write one SELECT")
    # `INTERVAL 1 DAY 2 HOURS` is parsed as a sum, which would be printed without parentheses.
    for total in list(tree.find_all(exp.Add)):
        if isinstance(total.expression, exp.Interval) and isinstance(total.parent, exp.Binary):
            total.replace(exp.Paren(this=total.copy()))
    return tree


def find_changed_literal(sql: str) -> str | None:
    """Return a number or text of a query that is not in what sqlglot prints for it, or None."""
    tokens = tokenize_sql(sql)
    for token, following in pairwise(tokens):
        if {token.token_type, following.token_type} == {TokenType.STRING} and token.end + 1 == following.start:
            # Spark 4 reads two quotes as one, and Spark 3 as two texts without a space between them.
            return f"'{token.text}''{following.text}'"
    printed = tokenize_sql(print_sql(parse_query(sql)))
    lost = Counter(_read_literals(tokens)) - Counter(_read_literals(printed))
    return next(iter(lost), None)


def _read_literals(tokens: Sequence[Token]) -> Iterator[str]:
    kinds = (TokenType.NUMBER, TokenType.STRING, TokenType.RAW_STRING)
    return (token.text.lstrip("-") for token in tokens if token.token_type in kinds)


def print_sql(node: exp.Expr) -> str:
    """Return the text of a syntax tree, without comments."""
    return node.sql(dialect=ViewDialect, comments=False, normalize_functions=False)


def describe_node(node: exp.Expr) -> str:
    """Return a part of the SQL on one line, short enough for a message."""
    text = print_sql(node)
    return text if len(text) <= 80 else text[:77] + "..."


def quote_name(name: str) -> str:
    """Return a name in backquotes."""
    return "`" + name.replace("`", "``") + "`"


def _describe_error(error: SqlglotError) -> ConfigError:
    details = getattr(error, "errors", None)
    if not details:
        return ConfigError(f"the SQL cannot be parsed: {error}", where="sql", fix="correct the SQL")
    first = details[0]
    place = f"line {first['line']}, column {first['col']}"
    near = f" near {first['highlight']!r}" if first.get("highlight") else ""
    what = f"the SQL cannot be parsed{near} ({place}): {first['description']}"
    return ConfigError(what, where="sql", fix="correct the SQL")
