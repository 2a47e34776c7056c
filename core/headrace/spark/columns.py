"""Columns by name, and as steps of a plan."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache, wraps
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from headrace.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

Item = TypeVar("Item")
P = ParamSpec("P")

#: A character that separates texts, and is in no name that a database has.
_BETWEEN = "\x1e"
#: Of each function that reuses its Columns, the sets of arguments whose Columns are kept: several for each of some hundred tables.
_KEPT = 512


def quote_name(name: str) -> str:
    """A column name as Spark's SQL reads it literally."""
    return "`" + name.replace("`", "``") + "`"


def select_texts(frame: DataFrame, texts: Sequence[str]) -> DataFrame:
    """The frame with the columns that the texts are, each an expression of SQL.

    A table may have hundreds: they go to Java in one call, where a Column takes a few for each. Only in sessions of headrace's own is
    ``${…}`` in a name left as it is.
    """
    from pyspark.sql import DataFrame

    if not texts or any(_BETWEEN in text for text in texts):
        return frame.selectExpr(*texts)
    jvm: Any = frame.sparkSession._jvm  # noqa: SLF001 - PySpark's own way is a call for each text
    array = jvm.java.util.regex.Pattern.compile(_BETWEEN).split(_BETWEEN.join(texts))
    return DataFrame(frame._jdf.selectExpr(array), frame.sparkSession)  # noqa: SLF001


def reuse_columns(make: Callable[P, Item]) -> Callable[P, Item]:
    """The function, which makes its Columns once for the same arguments. These must be hashable.

    A table's hundreds of columns take tens of thousands of calls to Java, and batch after batch has the same ones. A Column is of no
    frame and of no session: it says what to make of columns that have these names.
    """

    @lru_cache(_KEPT)
    def make_in(_: object, *arguments: P.args, **options: P.kwargs) -> Item:
        return make(*arguments, **options)

    @wraps(make)
    def reuse(*arguments: P.args, **options: P.kwargs) -> Item:
        from pyspark import SparkContext

        # Columns end with the Java that they are in.
        return make_in(SparkContext._gateway, *arguments, **options)  # type: ignore[arg-type]  # noqa: SLF001

    return reuse


def any_of(conditions: Iterable[Column]) -> Column:
    """Whether one of the conditions holds; false without any.

    By halves: of hundreds in a row each would be nested in the next, and Java's stack has an end.
    """
    from pyspark.sql import functions as F

    several = list(conditions) or [F.lit(False)]
    while len(several) > 1:
        pairs = zip(several[::2], several[1::2], strict=False)
        several = [a | b for a, b in pairs] + several[len(several) // 2 * 2 :]
    return several[0]


def barrier(column: Column) -> Column:
    """The column as a step of its own: a filter above is not written out in terms of what it is made from.

    Spark would do that once for every mention, and parse each time; with steps above steps such a plan has no end.
    """
    from pyspark.sql import functions as F

    return F.when(F.spark_partition_id() >= 0, column)


def name_fold(session: SparkSession) -> Callable[[str], str]:
    """What makes one text of all names that the session takes for the same, by ``spark.sql.caseSensitive``."""
    return str if session.conf.get("spark.sql.caseSensitive") == "true" else str.lower


def fold_keys(by_name: Mapping[str, Item], fold: Callable[[str], str]) -> dict[str, Item]:
    """The items by their folded names. ConfigError when two of the names are one."""
    written: dict[str, str] = {}
    for name in by_name:
        other = written.setdefault(fold(name), name)
        if other != name:
            raise ConfigError(
                f"{other!r} and {name!r} are one column",
                fix="leave one of them out; with `spark.sql.caseSensitive: true` under `spark:` they are two",
            )
    return {fold(name): item for name, item in by_name.items()}


def match_names(session: SparkSession, wanted: Iterable[str], names: Iterable[str]) -> dict[str, str]:
    """Those of ``names`` that the session takes for one of ``wanted`` → how they are written there."""
    fold = name_fold(session)
    by_name = fold_keys({name: name for name in wanted}, fold)
    return {name: by_name[fold(name)] for name in names if fold(name) in by_name}
