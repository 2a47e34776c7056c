"""Column names as Spark compares them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pytest

from headrace.spark.columns import fold_name

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("id", "ID"),
        ("id", "\u0131d"),  # dotless i
        ("id", "\u0130D"),  # I with a dot
        ("i\u0307d", "\u0130D"),
        ("source", "\u017fource"),  # long s
        ("kind", "\u212aind"),  # Kelvin
        ("\xb5", "\u03bc"),  # micro, mu
        ("\u03c3", "\u03c2"),  # sigma
        ("\xdf", "\u1e9e"),  # sharp s
        ("\xe9", "\xc9"),
    ],
)
def test_look_alikes_are_equal(name: str, other: str) -> None:
    assert fold_name(name) == fold_name(other)


@pytest.mark.parametrize(
    ("name", "other"), [("id", "ld"), ("e", "\xe9"), ("\xe9", "e\u0301"), ("ss", "\xdf"), ("k\u0131", "k\xfc")]
)
def test_other_names_differ(name: str, other: str) -> None:
    assert fold_name(name) != fold_name(other)


@pytest.mark.spark
def test_names_fold_as_in_java(spark: SparkSession) -> None:
    """Spark's case-insensitive resolver is ``equalsIgnoreCase``, which folds single characters."""
    character = cast("Any", spark)._jvm.java.lang.Character
    codes = [*range(0x80, 0x530), *range(0x1E00, 0x1FFF), *range(0x2100, 0x2190)]
    java = {chr(code): chr(character.toLowerCase(character.toUpperCase(code))) for code in codes}
    assert {letter: fold_name(letter) for letter in java} == java
