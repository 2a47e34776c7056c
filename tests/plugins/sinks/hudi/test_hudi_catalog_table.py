"""Values of Hudi partitions in a catalog, from their folders. The configuration of the table is a stand-in for Hudi's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import SimpleNamespace

import pytest
from pyspark.sql.types import DataType, DateType, IntegerType, StringType, StructType, TimestampType

from headrace_sinks.hudi.hudi_catalog_table import HudiTable


@dataclass
class TableConfig:
    """The options of a Hudi table that describe its folders."""

    fields: Sequence[str]
    hive_style: bool = False
    encoded: bool = False
    days: bool = False

    def getPartitionFields(self) -> SimpleNamespace:  # noqa: N802 - Hudi's name
        return SimpleNamespace(isPresent=lambda: True, get=lambda: self.fields)

    def getHiveStylePartitioningEnable(self) -> str:  # noqa: N802
        return str(self.hive_style).lower()

    def getUrlEncodePartitioning(self) -> str:  # noqa: N802
        return str(self.encoded).lower()

    def getSlashSeparatedDatePartitioning(self) -> bool:  # noqa: N802
        return self.days


def values(folder: str, config: TableConfig, *types: DataType) -> tuple[str, ...]:
    table = HudiTable.__new__(HudiTable)
    table._path, table._config, table._columns = "/table", config, StructType()
    for name, kind in zip(config.fields, types, strict=True):
        table._columns.add(name, kind)
    ((found, place),) = table.locate([folder]).items()
    assert place == f"/table/{folder}"
    return found


@pytest.mark.parametrize("text", ["05/01/2026", "2026/01/05", "1/2", "7", "a/b", "day=7", "2026-01-05"])
@pytest.mark.parametrize("hive_style", [False, True])
def test_text_column_keeps_its_text(text: str, hive_style: bool) -> None:
    folder = f"day={text}" if hive_style else text
    assert values(folder, TableConfig(["day"], hive_style), StringType()) == (text,)


@pytest.mark.parametrize("kind", [DateType(), TimestampType(), IntegerType()])
@pytest.mark.parametrize("hive_style", [False, True])
def test_folders_of_a_day_are_a_date(kind: DataType, hive_style: bool) -> None:
    folder = "day=2024/02/29" if hive_style else "2024/02/29"
    assert values(folder, TableConfig(["day"], hive_style), kind) == ("2024-02-29",)


def test_option_of_hudi_makes_folders_of_a_text_with_a_day() -> None:
    assert values("2024/02/29", TableConfig(["day"], days=True), StringType()) == ("2024-02-29",)
    assert values("05/01/2026", TableConfig(["day"], days=True), StringType()) == ("05/01/2026",)


def test_several_columns() -> None:
    kinds = DateType(), StringType()
    assert values("2024-02-29/day=1", TableConfig(["day", "country"]), *kinds) == ("2024-02-29", "day=1")
    encoded = TableConfig(["day", "country"], hive_style=True, encoded=True)
    assert values("day=2024-02-29/country=a%2Fb c", encoded, *kinds) == ("2024-02-29", "a/b c")
