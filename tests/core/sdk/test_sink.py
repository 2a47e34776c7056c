from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from headrace.errors import ConfigError, NoSuchTableError
from headrace.sdk.sink import Batch, Sink, Table, WriteResult

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


_ROWS: Any = object()


class OneTable(Sink):
    """Sink that contains the table ``there``, and cannot read the table ``damaged``."""

    name = "one_table"
    api_version = 1

    def write(self, table: Table, rows: DataFrame, batch: Batch) -> WriteResult:
        raise NotImplementedError

    def read_back(self, spark: SparkSession, table: Table, as_of: str | None = None) -> DataFrame:
        if table.name == "damaged":
            raise ConfigError("permission denied")
        if table.name != "there":
            raise NoSuchTableError(f"there is no table {table.name!r}")
        rows: DataFrame = _ROWS
        return rows


@pytest.mark.parametrize("mode", ["upsert", "append"])
def test_format_of_marks_is_stable(mode: Any) -> None:
    assert Batch("0f9c", 7, mode).mark == "0f9c:7"
    assert Batch("0f9c", 7, mode, digest="ab").mark == "0f9c:7:ab"


def test_prefix_matches_only_marks_of_one_pipeline() -> None:
    assert Batch("a", 7, "upsert").mark.startswith(Batch("a", 1, "append").mark_prefix)
    assert not Batch("ab", 7, "upsert").mark.startswith(Batch("a", 7, "upsert").mark_prefix)


@pytest.mark.parametrize(
    ("marks", "is_applied"),
    [
        ([], False),
        (["p:6:a", "p:5:a"], False),
        (["p:7:a"], True),
        (["p:7"], True),  # of an older version
        (["p:7:b", "p:6:a"], None),
        (["p:9:a", "p:8:a", "p:7:a"], True),
        (["p:9:a", "p:8:a"], None),
        # Another checkpoint was older than the table: batch 6 may have had fewer records than before.
        (["p:6:b", "p:5:b", "p:6:a"], None),
        (["p:6:b", "q:9:a", "p/truncate:9:a", "p:6:b"], False),
    ],
)
def test_batch_is_compared_with_marks(marks: list[str], is_applied: bool | None) -> None:
    assert Batch("p", 7, "append", digest="a").is_applied(marks) is is_applied


def test_batch_without_a_digest_is_compared_by_number() -> None:
    assert Batch("p", 7, "append").is_applied(["p:7:b"])
    assert Batch("p", 7, "append").is_applied(["p:8:b"]) is None


def test_missing_table_is_none() -> None:
    spark: Any = None
    sink = OneTable()
    assert sink.read_or_none(spark, Table("there")) is _ROWS
    assert sink.read_or_none(spark, Table("not there")) is None
    with pytest.raises(ConfigError, match="permission denied"):
        sink.read_or_none(spark, Table("damaged"))
