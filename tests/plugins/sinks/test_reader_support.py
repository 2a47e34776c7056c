"""What follows for new tables from those that read them, and what contradicts them: no table is made here."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError
from pyspark.sql import types as T

from headrace.errors import ConfigError, DataError
from headrace.sdk import Sink, Table
from headrace_sinks import HudiSink, IcebergSink
from headrace_sinks.hudi import hudi_readers
from headrace_sinks.hudi.hudi_table_services import list_inline_options
from headrace_sinks.iceberg import iceberg_readers
from headrace_sinks.reader_support import Reads, Support, check_reader_names, list_names, load_name_rules

#: The readers of whom all is known to be right, and those who do not see rows removed.
KNOWING, IGNORANT = ["spark", "duckdb"], ["spark", "databricks"]


def iceberg(**options: Any) -> IcebergSink:
    return IcebergSink(warehouse="lake", **options)


def hudi(**options: Any) -> HudiSink:
    return HudiSink(path="lake", **options)


def mode(sink: IcebergSink) -> str:
    properties = sink._table_options.properties()
    assert len({properties[f"write.{action}.mode"] for action in ("merge", "update", "delete")}) == 1
    return f"{properties['format-version']} {properties['write.merge.mode']}"


def refusal(sink: Sink) -> str:
    with pytest.raises(ConfigError) as refused:
        sink.check()
    return str(refused.value)


# Iceberg


@pytest.mark.parametrize(
    ("options", "chosen"),
    [
        ({}, "2 merge-on-read"),
        ({"table.type": "copy-on-write"}, "2 copy-on-write"),
        ({"readers": []}, "2 merge-on-read"),
        ({"readers": list(KNOWING)}, "2 merge-on-read"),
        ({"readers": list(KNOWING), "table.type": "copy-on-write"}, "2 copy-on-write"),
        ({"readers": list(IGNORANT)}, "2 copy-on-write"),
        ({"readers": list(IGNORANT), "table.type": "copy-on-write"}, "2 copy-on-write"),
        ({"readers": ["databricks"], "format-version": 3}, "3 merge-on-read"),
        ({"readers": ["trino"], "format-version": 3}, "3 merge-on-read"),
        ({"format-version": 3}, "3 merge-on-read"),
        ({"format-version": 1}, "1 copy-on-write"),
    ],
)
def test_new_iceberg_tables_are_such_that_all_readers_read_them(options: dict[str, Any], chosen: str) -> None:
    sink = iceberg(**options)
    sink.check()
    assert mode(sink) == chosen


@pytest.mark.parametrize("option", ["table.type", "write.merge.mode", "write.delete.mode"])
def test_merge_on_read_is_refused_for_a_reader_that_would_show_deleted_rows(option: str) -> None:
    assert refusal(iceberg(readers=IGNORANT, **{option: "merge-on-read"})) == (
        f"sink iceberg, {option}: merge-on-read writes position deletes, but databricks ignores position deletes\n"
        "  fix: use copy-on-write or remove the option, or remove databricks from `readers`"
    )


@pytest.mark.parametrize("table_type", ["merge-on-read", "copy-on-write"])
def test_a_format_version_that_a_reader_does_not_read_is_refused(table_type: str) -> None:
    options = {"format-version": 3, "table.type": table_type}
    assert refusal(iceberg(readers=["spark", "clickhouse", "daft"], **options)) == (
        "sink iceberg, format-version: tables of format version 3 have deletion vectors, but clickhouse refuses "
        "deletion vectors and daft refuses deletion vectors\n  fix: remove the option, or remove clickhouse and daft from `readers`"
    )


def test_merge_on_read_is_refused_in_a_format_version_that_has_no_deletes() -> None:
    assert refusal(iceberg(**{"format-version": 1, "table.type": "merge-on-read"})).startswith(
        "sink iceberg, table.type: merge-on-read writes delete files, which format version 1 does not support\n  fix: use copy-on-write"
    )


def test_a_format_version_of_which_nothing_is_known_is_refused() -> None:
    assert "it is not known which readers support format version 4" in refusal(
        iceberg(readers=["spark"], **{"format-version": 4})
    )


def test_a_reader_of_whom_nothing_is_known_is_refused_with_those_that_are() -> None:
    with pytest.raises(ValidationError, match=r"unknown reader 'trinoo' of Iceberg tables; .*trino"):
        iceberg(readers=["trinoo"])
    with pytest.raises(ValidationError, match="unknown reader 'duckdb' of Hudi tables"):
        hudi(readers=["duckdb"])


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({}, []),
        ({"readers": KNOWING}, []),
        ({"readers": IGNORANT, "table.type": "copy-on-write"}, []),
        (
            {"readers": IGNORANT},
            [
                (
                    "new tables are copy-on-write, so a batch rewrites every file that has a changed row: databricks ignores "
                    "position deletes"
                )
            ],
        ),
        (
            {"readers": ["spark", "trino", "hive"], "format-version": 3},
            [
                (
                    "merge-on-read writes deletion vectors, and it is not known whether trino and hive can read them: test it before "
                    "you rely on it"
                )
            ],
        ),
        (
            {"readers": ["spark"], "write.format.default": "orc"},
            ["the support of readers is known for Parquet files only, and write.format.default is orc"],
        ),
        (
            {"readers": ["athena", "redshift"]},
            [
                (
                    "athena and redshift can find tables only in the catalog of AWS Glue, and `warehouse` is a folder without a catalog: "
                    "set a `catalog` of `type: glue` instead"
                )
            ],
        ),
    ],
)
def test_what_is_chosen_at_a_price_or_not_known_is_said(options: dict[str, Any], told: list[str]) -> None:
    assert list(iceberg(**options).warnings()) == told


def test_glues_readers_are_at_home_in_a_catalog() -> None:
    assert not list(IcebergSink(catalog="glue", readers=["athena", "redshift"]).warnings())


@pytest.mark.parametrize(
    ("readers", "reads"),
    [
        ([], False),
        (["spark", "flink", "duckdb"], True),
        (["spark", "pyiceberg"], False),
        (["databricks"], False),
        (["redshift"], False),
    ],
)
def test_equality_deletes_are_for_readers_that_are_all_known_to_read_them(readers: list[str], reads: bool) -> None:
    assert iceberg(readers=readers).reads_equality_deletes is reads


# Hudi


@pytest.mark.parametrize(
    ("options", "chosen"),
    [
        ({}, ("MERGE_ON_READ", None)),
        ({"table.type": "COPY_ON_WRITE"}, ("COPY_ON_WRITE", None)),
        ({"readers": ["spark", "flink"]}, ("MERGE_ON_READ", None)),
        ({"readers": ["spark", "trino"]}, ("COPY_ON_WRITE", None)),
        ({"readers": ["spark", "athena"]}, ("COPY_ON_WRITE", "6")),
        ({"readers": ["starrocks"]}, ("COPY_ON_WRITE", "6")),
        ({"hoodie.write.table.version": 6}, ("MERGE_ON_READ", None)),
        ({"readers": ["starrocks"], "table.type": "COPY_ON_WRITE"}, ("COPY_ON_WRITE", "6")),
    ],
)
def test_new_hudi_tables_are_such_that_all_readers_read_them(
    options: dict[str, Any], chosen: tuple[str, str | None]
) -> None:
    sink = hudi(**options)
    sink.check()
    found = sink._table_options.write_options()
    assert (found["hoodie.datasource.write.table.type"], found.get("hoodie.write.table.version")) == chosen


@pytest.mark.parametrize("option", ["table.type", "hoodie.datasource.write.table.type"])
def test_merge_on_read_is_refused_for_a_reader_of_base_files_alone(option: str) -> None:
    assert refusal(hudi(readers=["spark", "trino"], **{option: "MERGE_ON_READ"})) == (
        f"sink hudi, {option}: merge-on-read writes changes to log files, but trino ignores log files\n"
        "  fix: use COPY_ON_WRITE or remove the option, or remove trino from `readers`"
    )


def test_log_files_are_refused_in_a_table_version_whose_compaction_would_lose_them() -> None:
    assert refusal(hudi(readers=["spark", "starrocks"], **{"table.type": "MERGE_ON_READ"})) == (
        "sink hudi, table.type: readers require a table version before 8, in which log files must not be written during a "
        "compaction\n  fix: use COPY_ON_WRITE, or remove the option"
    )


@pytest.mark.parametrize("options", [{"readers": ["starrocks"]}, {"hoodie.write.table.version": 6}])
def test_an_old_table_version_is_compacted_in_batches_and_not_beside_them(options: dict[str, Any]) -> None:
    assert list_inline_options(hudi(readers=["spark"])._user_options)["hoodie.compact.inline"] == "false"
    assert "hoodie.compact.inline" not in list_inline_options(hudi(**options)._user_options)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (
            {"readers": ["athena"], "hoodie.write.table.version": 9},
            (
                "sink hudi, hoodie.write.table.version: athena reads tables up to version 6\n"
                "  fix: remove the option, or remove athena from `readers`"
            ),
        ),
        (
            {"readers": ["spark", "redshift"]},
            (
                "sink hudi, readers: redshift reads tables up to version 4, and Hudi 1.2 writes version 6 or newer\n"
                "  fix: remove redshift, or write its tables with the sink `iceberg`"
            ),
        ),
        (
            {"readers": ["daft"]},
            (
                "sink hudi, readers: daft refuses the tables that Hudi 1.2 writes\n"
                "  fix: remove daft, or write its tables with the sink `iceberg`"
            ),
        ),
    ],
)
def test_a_table_version_that_a_reader_does_not_read_is_refused(options: dict[str, Any], sentence: str) -> None:
    assert refusal(hudi(**options)) == sentence


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({}, []),
        ({"readers": ["spark", "hudi-rs"]}, []),
        (
            {"readers": ["athena", "impala"]},
            [
                (
                    "new tables are COPY_ON_WRITE, so a batch rewrites every file that has a changed row: impala ignores log files, "
                    "and readers require a table version before 8, and it is not known whether athena can read log files"
                ),
                (
                    "it is not known whether impala can read table version 6: test it; `hoodie.write.table.version: 6` is the version "
                    "of Hudi 0.14 and 0.15"
                ),
            ],
        ),
        (
            {"readers": ["bigquery"], "table.type": "MERGE_ON_READ", "hoodie.write.table.version": 8},
            [
                (
                    "merge-on-read writes changes to log files, and it is not known whether bigquery can read them: test it before you "
                    "rely on it"
                )
            ],
        ),
        (
            {"readers": ["starrocks"]},
            [
                (
                    "new tables are COPY_ON_WRITE, so a batch rewrites every file that has a changed row: readers require a table "
                    "version before 8"
                )
            ],
        ),
        ({"readers": ["presto"], "hoodie.write.table.version": 8}, []),
    ],
)
def test_what_is_chosen_for_hudi_at_a_price_or_not_known_is_said(options: dict[str, Any], told: list[str]) -> None:
    assert list(hudi(**options).warnings()) == told


# Names


@pytest.mark.parametrize("name", ["order id", "größe", "a.b", "p-q"])
@pytest.mark.parametrize("sink", [iceberg(readers=["spark", "athena"]), hudi(readers=["spark", "athena"])])
def test_a_column_that_a_reader_cannot_have_by_its_name_is_refused(sink: Sink, name: str) -> None:
    with pytest.raises(DataError) as refused:
        sink.check_columns(Table("shop.orders"), ["id", name])
    assert str(refused.value) == (
        f"table shop.orders: athena does not support the column name {name!r}: a name consists of English letters, digits and `_`\n"
        "  fix: rename the column with `rename` under `transforms:`, or remove athena from `readers`"
    )


@pytest.mark.parametrize("name", ["1st", "_TABLE_of", "_partition", "x" * 301])
def test_names_that_bigquery_has_for_itself(name: str) -> None:
    with pytest.raises(DataError, match="bigquery does not support the column name"):
        check_reader_names(["bigquery"], [name], "t")
    check_reader_names(["spark", "trino", "pyiceberg"], [name], "t")


def test_names_inside_of_others_are_looked_at_too() -> None:
    inner = T.StructType().add("deep er", T.IntegerType())
    schema = T.StructType().add("tags", T.MapType(T.StringType(), T.ArrayType(inner))).add("id", T.IntegerType())
    assert list(list_names(schema)) == ["tags", "deep er", "id"]


def test_all_that_is_headraces_own_has_a_name_that_every_reader_takes() -> None:
    check_reader_names(load_name_rules(), ["_headrace_position", "_hoodie_is_deleted", "__op"], "t")


# The tables of what is known


def facts() -> list[tuple[str, Support]]:
    found = []
    for table in (iceberg_readers.load_readers(), hudi_readers.load_readers()):
        for name, reader in table.items():
            found += [(f"{name} {key}", value) for key, value in vars(reader).items() if isinstance(value, Support)]
    return found


@pytest.mark.parametrize(("what", "fact"), facts())
def test_what_is_said_of_a_reader_has_a_source_and_a_day(what: str, fact: Support) -> None:
    assert fact.reads is Reads.UNKNOWN or fact.source, what
    if fact.source:
        assert fact.source.where.startswith(("https://", "tested: ")), what
        assert len(fact.source.date) == len("2026-11-25"), what
