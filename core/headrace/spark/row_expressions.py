"""SQL expressions over a row, in options of transforms: their columns, their checks and their values."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from headrace.errors import ConfigError
from headrace.spark.columns import fold_name, quote_name
from headrace.spark.decimal_texts import limit_decimals
from headrace.spark.parsed_nodes import class_name, items
from headrace.spark.row_calls import FAILS, FIX, check_call, check_operator
from headrace.spark.row_functions import FORBIDDEN, REFUSED, UNSTABLE, UNSTABLE_NAMES
from headrace.spark.row_rewrites import rewrite

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

#: Prefix of headrace's own columns, as in ``headrace.sdk.changes``, which this package does not import.
_PREFIX = "_headrace_"
_ALL = _PREFIX + "all"
_REPEATABLE = "use deterministic functions"
#: Spark's classes of forbidden functions, of subqueries, and of functions of users, which may be called by another name.
_CLASSES = {
    *(
        "CallMethodViaReflection",
        "CurrentDate",
        "CurrentTimestamp",
        "CurrentTime",
        "Now",
        "LocalTimestamp",
        "CurrentUser",
    ),
    *("RaiseError", "ScalarSubquery", "Exists", "ListQuery", "InSubquery", "LateralSubquery"),
    *("PythonUDF", "ScalaUDF", "HiveSimpleUDF", "HiveGenericUDF"),
}
#: Spark's class of a name in a lambda: of an argument, or of a column.
_LAMBDA_NAME = "UnresolvedNamedLambdaVariable"
#: Spark's class of an operator that returns null for an error of its child.
_TRY, _ADDED = "TryEval", ("Cast", "DatetimeSub")
#: First words of Spark's classes that stand for columns without naming them: ``*`` and ``IDENTIFIER(…)``.
_UNNAMED = ("UnresolvedStar", "UnresolvedRegex", "ExpressionWithUnresolvedIdentifier")
#: Strings that Spark reads as the current time, also before a time zone.
_CLOCK = re.compile(r"\s*(now|today|tomorrow|yesterday)\b", re.IGNORECASE)
_QUOTED = re.compile(r"\br'[^']*'|\br\"[^\"]*\"|'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|`[^`]*`", re.DOTALL)
_COMMENT = re.compile(r"--[^\n]*|/\*.*?\*/", re.DOTALL)
_SKIPPED = re.compile(rf"{_QUOTED.pattern}|{_COMMENT.pattern}", re.DOTALL | re.IGNORECASE)
_CALLED = re.compile(r"(\w+)`?\s*\(")
_LITERAL = re.compile(
    rf"(?P<type>\b(?:date|timestamp(?:_ltz|_ntz)?)\s*r?)?(?P<quoted>{_QUOTED.pattern})", re.DOTALL | re.IGNORECASE
)


def check_sql(text: str) -> str:
    """Return a SQL expression. ValueError for one that is empty or calls a forbidden function, as far as known without Java."""
    if not text.strip():
        raise ValueError("is empty")
    for literal in _LITERAL.finditer(text):  # Spark's parser replaces such a literal by the time at which it reads it.
        if literal["type"] and _CLOCK.match(literal["quoted"][1:]):
            raise ValueError(f"reads the clock: {literal[0]}")
    for name in _CALLED.findall(_SKIPPED.sub(_shorten, text)):
        if name.lower() in FORBIDDEN:
            raise ValueError(f"calls {name}, which is not a function of the row: {FORBIDDEN[name.lower()]}")
        if fix := REFUSED.get(name.lower()):
            raise ValueError(f"calls {name}, {FAILS}: {fix}")
    return text


def _shorten(skipped: re.Match[str]) -> str:
    """Return a quoted name as it is, an empty text for a text, and a space for a comment."""
    return {"`": skipped[0], "-": " ", "/": " "}.get(skipped[0][0], "''")


def read_columns(text: str | None) -> tuple[str, ...]:
    """Return the columns that a SQL expression names, without headrace's own; none without Java.

    ConfigError if it cannot be parsed, or reads columns without their names.
    """
    return tuple(name for name in _list_names(text or "") if not _is_own(name))


def _is_own(name: str) -> bool:
    return name.lower().startswith(_PREFIX)


def _list_names(text: str) -> tuple[str, ...]:
    from pyspark import SparkContext

    jvm: Any = SparkContext._jvm  # noqa: SLF001 - PySpark's public API has no parser
    if not text or not jvm:
        return ()
    return _parse_names(text, is_case_sensitive=jvm.org.apache.spark.sql.internal.SQLConf.get().caseSensitiveAnalysis())


@lru_cache(1024)
def _parse_names(text: str, *, is_case_sensitive: bool) -> tuple[str, ...]:
    from pyspark import SparkContext
    from pyspark.errors import ParseException

    jvm: Any = SparkContext._jvm  # noqa: SLF001
    try:
        tree = jvm.org.apache.spark.sql.execution.SparkSqlParser().parseExpression(text)
    except ParseException as error:
        reason = str(error).strip().splitlines()[0]
        raise ConfigError(f"{text!r} is not a SQL expression: {reason}", fix="correct the expression") from None
    names = []
    for node in _walk_unbound(tree, frozenset(), str if is_case_sensitive else fold_name):
        kind = class_name(node)
        if kind in ("UnresolvedAttribute", _LAMBDA_NAME):
            names.append(str(node.nameParts().head()))
            if names[-1].lower() in UNSTABLE_NAMES - {"user"}:
                raise ConfigError(
                    f"{text!r} uses {names[-1]}, which is not a function of the row", fix=UNSTABLE[names[-1].lower()]
                )
        elif kind in _CLASSES:
            raise ConfigError(f"{text!r} uses {node.nodeName()}, which is not a function of the row", fix=FIX)
        elif kind.startswith(_UNNAMED):
            raise ConfigError(f"{text!r} reads columns without their names", fix="name each column instead of `*`")
        check_call(text, node)
    return tuple(dict.fromkeys(names))


def _walk_unbound(node: Any, arguments: frozenset[str], fold: Callable[[str], str]) -> Iterator[Any]:
    """Yield the nodes of a parsed expression, without the arguments of its lambdas: Spark parses every name in a lambda alike."""
    kind = class_name(node)
    if kind == "LambdaFunction":
        arguments |= {fold(str(argument.nameParts().head())) for argument in items(node.arguments())}
    if kind != _LAMBDA_NAME or fold(str(node.nameParts().head())) not in arguments:
        yield node
    for child in items(node.children()):
        yield from _walk_unbound(child, arguments, fold)


def evaluate(frame: DataFrame, scope: Mapping[str, Column], texts: Sequence[str], prefix: str) -> DataFrame:
    """Return the frame with a column for each SQL expression: ``prefix`` and its number.

    ``scope``: name → column that the expressions may name. ConfigError for an expression that Spark rejects, that is not
    deterministic, or that needs more than its row.
    """
    from pyspark.errors import AnalysisException, ParseException
    from pyspark.sql import functions as F

    everything = F.struct(*[F.col(quote_name(name)) for name in frame.columns]).alias(_ALL)
    inner = frame.select(everything, *[column.alias(name) for name, column in scope.items()])
    known, limited = set(map(fold_name, scope)), []
    for text in texts:
        if name := next((name for name in _list_names(text) if _is_own(name) and fold_name(name) not in known), None):
            raise ConfigError(f"{text!r} names {name}, which is no column of the row", fix=FIX)
        try:
            rewritten = rewrite(text)
            limited.append(limit_decimals(rewritten, _check_plan(text, inner, inner.select(F.expr(rewritten)))))
        except (AnalysisException, ParseException) as error:
            what = str(error).strip().splitlines()[0]
            raise ConfigError(f"{text!r} is not an expression over the row: {what}", fix="correct it") from None
    return inner.select(f"{_ALL}.*", *[F.expr(text).alias(f"{prefix}{n}") for n, text in enumerate(limited)])


def _check_plan(text: str, inner: DataFrame, result: DataFrame) -> Any:
    """Return the analyzed expression. ConfigError for one that is more than a function of its row."""
    plan, below = (frame._jdf.queryExecution().analyzed() for frame in (result, inner))  # noqa: SLF001 - PySpark only prints plans
    if plan.nodeName() != "Project" or not plan.child().fastEquals(below):
        raise ConfigError(f"{text!r} needs other rows than its own", fix=f"{FIX}, without aggregates and windows")
    tree, *others = items(plan.projectList())
    if others:
        raise ConfigError(f"{text!r} is not one value", fix="name the columns")
    if not tree.deterministic():
        raise ConfigError(f"{text!r} gives another value when a batch is repeated", fix=_REPEATABLE)
    names = set(map(fold_name, _list_names(text)))
    for parent, node in _walk(tree):
        kind = class_name(node)
        if kind.startswith("ParseTo"):  # `to_date` without a pattern is a cast.
            node = node.replacement()  # noqa: PLW2901
            kind = class_name(node)
        if kind == "AttributeReference" and fold_name(str(node.name())) not in names:
            raise ConfigError(f"{text!r} reads {node.name()} without its name", fix="name the columns")
        if kind in _CLASSES:
            raise ConfigError(f"{text!r} uses {node.nodeName()}, which is not a function of the row", fix=FIX)
        if (kind == "Cast" and _is_clock(node)) or (kind == "AesEncrypt" and _is_random(node)):
            raise ConfigError(f"{text!r} gives another value when a batch is repeated", fix=_REPEATABLE)
        if parent != _TRY:
            check_operator(text, node)
    return tree


def _is_clock(cast: Any) -> bool:
    """Return whether a cast reads the clock: of the string ``now`` or ``today`` to a date or a timestamp."""
    child, target = cast.child(), str(cast.dataType().typeName())
    if not target.startswith(("date", "timestamp")) or child.dataType().typeName() != "string" or not child.foldable():
        return False
    return _CLOCK.match(str(child.eval(None))) is not None


def _is_random(encryption: Any) -> bool:
    """Return whether ``aes_encrypt`` chooses a random initialization vector."""
    vector = encryption.iv().eval(None) if encryption.iv().foldable() else "a column"
    is_empty = not (vector if isinstance(vector, bytes | bytearray) else str(vector))
    return is_empty and str(encryption.mode()).upper() != "ECB"


def _walk(node: Any, parent: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the nodes of an analyzed expression, each with the class of its parent.

    Nodes that Spark adds between an operator and ``TryEval`` do not count.
    """
    yield parent, node
    kind = class_name(node)
    for child in items(node.children()):
        yield from _walk(child, parent if kind in _ADDED and parent == _TRY else kind)
