"""Keys of single rows, as users write them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import date
from decimal import Decimal
from functools import reduce
from typing import TYPE_CHECKING, Any

from headrace.errors import ConfigError, DataError
from headrace.spark.columns import fold_name, quote_name
from headrace.suggestions import did_you_mean

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import DataType


def parse_key(given: str | Mapping[str, Any], columns: Sequence[str]) -> dict[str, Any]:
    """Return the value of each key column. ``given``: ``7`` or ``id=7``; ``id=1,region=eu``; or a mapping.

    A comma that is not followed by a key column and ``=`` belongs to the value.
    """
    if isinstance(given, Mapping):
        return _order([(str(name), value) for name, value in given.items()], columns)
    names = "|".join(re.escape(name) for name in columns)
    before, *parts = re.split(rf"(?:^|,)\s*({names})\s*=", given, flags=re.IGNORECASE)
    if len(columns) == 1 and (before or len(parts) != len(("name", "value"))):
        return {columns[0]: given}
    if before or not parts:
        raise ConfigError(f"{given!r} is no key of several columns", fix=_describe(columns))
    return _order(list(zip(parts[::2], parts[1::2], strict=True)), columns)


def type_key(key: Mapping[str, Any], rows: DataFrame) -> dict[str, Column]:
    """Return the values of a key in the types of a table's columns. ConfigError for a value that does not fit its column."""
    from pyspark.sql import functions as F

    types = {fold_name(field.name): field.dataType for field in rows.schema}
    if missing := [name for name in key if fold_name(name) not in types]:
        raise DataError(f"the table lacks its key column {missing[0]!r}", fix="run the pipeline once")
    for name, value in key.items():
        _check_value(rows.sparkSession, name, value, types[fold_name(name)])
    return {name: F.lit(value).cast("string").cast(types[fold_name(name)]) for name, value in key.items()}


def match_key(key: Mapping[str, Column], rows: DataFrame) -> Column:
    """Return a condition for the rows with a key of ``type_key``. Its values are literals, by which formats skip files."""
    names = {fold_name(name): name for name in rows.columns}
    if missing := [name for name in key if fold_name(name) not in names]:
        raise DataError(f"a version of the table lacks the key column {missing[0]!r}", fix="choose a later version")
    conditions = [rows[quote_name(names[fold_name(name)])] == value for name, value in key.items()]
    return reduce(lambda a, b: a & b, conditions)


def _order(values: Sequence[tuple[str, Any]], columns: Sequence[str]) -> dict[str, Any]:
    """Return the values in the order of the key columns. ConfigError for other names."""
    by_name: dict[str, Any] = {}
    for name, value in values:
        if fold_name(name) not in map(fold_name, columns):
            raise ConfigError(f"{name!r} is no key column", fix=did_you_mean(name, columns))
        if fold_name(name) in by_name:
            raise ConfigError(f"the key column {name!r} has two values", fix=_describe(columns))
        by_name[fold_name(name)] = value
    if missing := [name for name in columns if fold_name(name) not in by_name]:
        raise ConfigError(f"the key column {missing[0]!r} has no value", fix=_describe(columns))
    return {name: by_name[fold_name(name)] for name in columns}


def _describe(columns: Sequence[str]) -> str:
    return f"write {','.join(f'{name}=VALUE' for name in columns)}"


def _check_value(session: SparkSession, name: str, value: Any, data_type: DataType) -> None:
    """Raise ConfigError for a value that a column of the type does not hold unchanged."""
    from pyspark.sql import functions as F

    kind = data_type.simpleString()
    given = session.range(0, 1, 1, 1).select(F.lit(value).cast("string").alias("value"))
    held = None if "<" in kind else given.selectExpr(f"try_cast(value AS {kind})").collect()[0][0]
    if held is None or not _is_same(held, str(value)):
        raise ConfigError(
            f"{value!r} is no value of the key column {name!r}, whose type is {kind}",
            fix="write the value as `headrace show` prints it",
        )


def _is_same(held: Any, text: str) -> bool:
    """Return whether a cast kept all of a text: it rounds numbers, and removes the time from dates."""
    if isinstance(held, Decimal):
        return held == Decimal(text.strip())
    return type(held) is not date or held.isoformat() == text.strip()
