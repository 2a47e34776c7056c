"""Column names, column expressions and plan steps."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache, wraps
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from headrace.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

Item = TypeVar("Item")
P = ParamSpec("P")

#: A separator that no database allows in names.
_SEPARATOR = "\x1e"
#: Lower case of the capital letter I with a dot.
_I_WITH_DOT = "i\u0307"
#: Cached argument sets per function: several for each of some hundred tables.
_CACHE_SIZE = 512


def quote_name(name: str) -> str:
    """Return a column name quoted for Spark SQL."""
    return "`" + name.replace("`", "``") + "`"


def select_texts(frame: DataFrame, texts: Sequence[str]) -> DataFrame:
    """Return the frame with the given SQL expressions as its columns.

    All of them are sent to Java in one call, while each Column takes several, and a table may have hundreds. Only headrace's own
    sessions leave ``${…}`` in a name unchanged.
    """
    from pyspark.sql import DataFrame

    if not texts or any(_SEPARATOR in text for text in texts):
        return frame.selectExpr(*texts)
    jvm: Any = frame.sparkSession._jvm  # noqa: SLF001 - PySpark's public API needs one call per expression
    array = jvm.java.util.regex.Pattern.compile(_SEPARATOR).split(_SEPARATOR.join(texts))
    return DataFrame(frame._jdf.selectExpr(array), frame.sparkSession)  # noqa: SLF001


def reuse_columns(make: Callable[P, Item]) -> Callable[P, Item]:
    """Cache the Columns that a function returns for the same arguments, which must be hashable.

    The hundreds of columns of a table take tens of thousands of calls to Java, and they are the same in every batch. A Column does not
    depend on a frame or a session: it refers to other columns by name.
    """

    @lru_cache(_CACHE_SIZE)
    def make_in(_: object, *arguments: P.args, **options: P.kwargs) -> Item:
        return make(*arguments, **options)

    @wraps(make)
    def reuse(*arguments: P.args, **options: P.kwargs) -> Item:
        from pyspark import SparkContext

        # Columns are valid in one JVM only.
        return make_in(SparkContext._gateway, *arguments, **options)  # type: ignore[arg-type]  # noqa: SLF001

    return reuse


def any_of(conditions: Iterable[Column]) -> Column:
    """Return a condition that is true if any of the conditions is true; false without conditions.

    The conditions are joined pairwise: a chain of hundreds nests each in the next and overflows Java's stack.
    """
    from pyspark.sql import functions as F

    terms = list(conditions) or [F.lit(False)]
    while len(terms) > 1:
        pairs = zip(terms[::2], terms[1::2], strict=False)
        terms = [a | b for a, b in pairs] + terms[len(terms) // 2 * 2 :]
    return terms[0]


def has_any_field(frame: DataFrame, struct: str) -> Column:
    """Return whether a field of a struct column has a value; false without the column."""
    from pyspark.sql import functions as F

    names: list[str] = getattr(frame.schema[struct].dataType, "names", []) if struct in frame.columns else []
    return F.coalesce(any_of(F.col(struct).getField(name).isNotNull() for name in names), F.lit(False))


def barrier(column: Column) -> Column:
    """Return the column as a separate plan step, so that filters above it do not repeat its expression.

    Otherwise Spark copies and evaluates the expression at every reference, and the plan grows exponentially with the steps.
    """
    from pyspark.sql import functions as F

    return F.when(F.spark_partition_id() >= 0, column)


def fold_name(name: str) -> str:
    """Return a column name in the form in which Spark compares names: Java's ``equalsIgnoreCase``, and lower case.

    Both agree for ASCII. ``equalsIgnoreCase`` also equates look-alikes such as ``\u0131`` and ``i``.
    """
    return name.lower() if name.isascii() else "".join(map(_fold_character, name)).replace(_I_WITH_DOT, "i")


def _fold_character(character: str) -> str:
    # Java converts single characters: some become several in Python.
    upper = next((text for text in (character.upper(), character.title()) if len(text) == 1), character)
    return upper.lower()[0]


def name_fold(session: SparkSession) -> Callable[[str], str]:
    """Return the function that folds names like the session, by ``spark.sql.caseSensitive``."""
    return str if session.conf.get("spark.sql.caseSensitive") == "true" else fold_name


def fold_keys(by_name: Mapping[str, Item], fold: Callable[[str], str]) -> dict[str, Item]:
    """Return the items by folded name. ConfigError if two names are equal after folding."""
    written: dict[str, str] = {}
    for name in by_name:
        other = written.setdefault(fold(name), name)
        if other != name:
            raise ConfigError(
                f"{other!r} and {name!r} are the same column",
                fix="remove one of them, or set `spark.sql.caseSensitive: true` under `spark:` to use both",
            )
    return {fold(name): item for name, item in by_name.items()}


def match_names(session: SparkSession, wanted: Iterable[str], names: Iterable[str]) -> dict[str, str]:
    """Return the ``names`` that match ``wanted`` in this session, with their spelling in ``wanted``."""
    fold = name_fold(session)
    by_name = fold_keys({name: name for name in wanted}, fold)
    return {name: by_name[fold(name)] for name in names if fold(name) in by_name}
