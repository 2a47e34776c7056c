"""Options of new tables that follow from their readers, and contradictions between them. No test writes a table."""

from __future__ import annotations

from typing import Any, cast

import pytest
from pyspark.sql import types as T

from headrace.errors import ConfigError, DataError
from headrace.sdk import Sink, Table
from headrace_sinks import DeltaSink, HudiSink, IcebergSink
from headrace_sinks.delta.delta_readers import explain_widening
from headrace_sinks.delta.delta_table_options import DeltaTableOptions
from headrace_sinks.hudi import hudi_readers
from headrace_sinks.hudi.hudi_table_services import list_inline_options
from headrace_sinks.iceberg import iceberg_readers
from headrace_sinks.reader_support import Reads, Support, check_reader_names, list_names, load_name_rules

#: Readers that fully support deletes, and readers that ignore them.
FULL_SUPPORT, NO_DELETES = ["spark", "duckdb"], ["spark", "databricks"]


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
        ({"readers": list(FULL_SUPPORT)}, "2 merge-on-read"),
        ({"readers": list(FULL_SUPPORT), "table.type": "copy-on-write"}, "2 copy-on-write"),
        ({"readers": list(NO_DELETES)}, "2 copy-on-write"),
        ({"readers": list(NO_DELETES), "table.type": "copy-on-write"}, "2 copy-on-write"),
        ({"readers": ["databricks"], "format-version": 3}, "3 merge-on-read"),
        ({"readers": ["trino"], "format-version": 3}, "3 merge-on-read"),
        ({"format-version": 3}, "3 merge-on-read"),
        ({"format-version": 1}, "1 copy-on-write"),
    ],
)
def test_new_iceberg_tables_are_readable_by_all_readers(options: dict[str, Any], chosen: str) -> None:
    sink = iceberg(**options)
    sink.check()
    assert mode(sink) == chosen


@pytest.mark.parametrize("option", ["table.type", "write.merge.mode", "write.delete.mode"])
def test_merge_on_read_is_rejected_for_readers_that_ignore_deletes(option: str) -> None:
    assert refusal(iceberg(readers=NO_DELETES, **{option: "merge-on-read"})) == (
        f"sink iceberg, {option}: merge-on-read writes position deletes, but databricks ignores position deletes\n"
        "  fix: use copy-on-write or remove the option, or remove databricks from `readers`"
    )


@pytest.mark.parametrize("table_type", ["merge-on-read", "copy-on-write"])
def test_unsupported_format_version_is_rejected(table_type: str) -> None:
    options = {"format-version": 3, "table.type": table_type}
    assert refusal(iceberg(readers=["spark", "clickhouse", "daft"], **options)) == (
        "sink iceberg, format-version: tables of format version 3 have deletion vectors, but clickhouse refuses "
        "deletion vectors and daft refuses deletion vectors\n  fix: remove the option, or remove clickhouse and daft from `readers`"
    )


def test_merge_on_read_is_rejected_in_format_version_without_deletes() -> None:
    assert refusal(iceberg(**{"format-version": 1, "table.type": "merge-on-read"})).startswith(
        "sink iceberg, table.type: merge-on-read writes delete files, which format version 1 does not support\n  fix: use copy-on-write"
    )


def test_unknown_format_version_is_rejected() -> None:
    assert "it is not known which readers support format version 4" in refusal(
        iceberg(readers=["spark"], **{"format-version": 4})
    )


def test_unknown_reader_is_rejected_with_a_list_of_readers() -> None:
    with pytest.raises(
        ConfigError, match=r"unknown reader 'trinoo' of Iceberg tables\n  fix: did you mean 'trino'\?; "
    ):
        iceberg(readers=["trinoo"])
    with pytest.raises(ConfigError, match="unknown reader 'duckdb' of Hudi tables"):
        hudi(readers=["duckdb"])


@pytest.mark.parametrize(
    ("options", "warnings"),
    [
        ({}, []),
        ({"readers": FULL_SUPPORT}, []),
        ({"readers": NO_DELETES, "table.type": "copy-on-write"}, []),
        (
            {"readers": NO_DELETES},
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
def test_warnings_for_iceberg_readers(options: dict[str, Any], warnings: list[str]) -> None:
    assert list(iceberg(**options).warnings()) == warnings


def test_glue_readers_need_no_warning_with_a_catalog() -> None:
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
def test_equality_deletes_require_support_of_all_readers(readers: list[str], reads: bool) -> None:
    assert iceberg(readers=readers).reads_equality_deletes is reads


# Delta


@pytest.mark.parametrize(
    ("options", "chosen"),
    [
        ({}, "true"),
        ({"readers": ["spark", "delta-rs"]}, "true"),
        ({"readers": ["spark", "polars"]}, "false"),
        ({"readers": ["trino"]}, "false"),
        ({"readers": ["trino"], "delta.enableDeletionVectors": True}, "true"),
        ({"delta.enableDeletionVectors": False}, "false"),
    ],
)
def test_new_delta_tables_are_readable_by_all_readers(options: dict[str, Any], chosen: str) -> None:
    assert DeltaSink(path="lake", **options)._table_options.properties()["delta.enableDeletionVectors"] == chosen


@pytest.mark.parametrize(
    ("options", "names", "mode"),
    [
        ({}, ["id", "a_b"], None),
        ({}, ["id", "a b"], "name"),
        ({"readers": ["spark", "trino"]}, ["a(b)"], "name"),
        ({"readers": ["spark", "athena"]}, ["a b"], None),
        ({"delta.columnMapping.mode": "none"}, ["a b"], "none"),
        ({"delta.columnMapping.mode": "id"}, ["a_b"], "id"),
    ],
)
def test_columns_of_new_delta_tables_are_mapped_for_names_that_need_it(
    options: dict[str, Any], names: list[str], mode: str | None
) -> None:
    readers, properties = options.get("readers", ()), {k: v for k, v in options.items() if k != "readers"}
    found = DeltaTableOptions(readers, properties).properties(names)
    assert found.get("delta.columnMapping.mode") == mode


def test_deletion_vectors_are_rejected_for_readers_that_refuse_them() -> None:
    sink = DeltaSink(path="lake", readers=["spark", "polars"], **{"delta.enableDeletionVectors": True})
    assert refusal(sink) == (
        "sink delta, delta.enableDeletionVectors: batches mark replaced rows with deletion vectors, but polars refuses deletion vectors\n"
        "  fix: remove the option, or remove polars from `readers`"
    )


UNKNOWN_TRINO = "it is not known whether trino can read deletion vectors"


@pytest.mark.parametrize(
    ("options", "warnings"),
    [
        ({"readers": ["spark"]}, []),
        (
            {"readers": ["spark", "trino"]},
            [
                "new tables have no deletion vectors, so a batch rewrites every file that has a changed row: "
                + UNKNOWN_TRINO
            ],
        ),
        (
            {"readers": ["trino"], "delta.enableDeletionVectors": True},
            [
                "batches write deletion vectors, and it is not known whether trino can read them: test it before you rely on it"
            ],
        ),
    ],
)
def test_warnings_for_delta_readers(options: dict[str, Any], warnings: list[str]) -> None:
    assert list(DeltaSink(path="lake", **options).warnings()) == warnings


def test_types_are_widened_only_for_readers_that_read_them() -> None:
    assert explain_widening([]) is None
    assert explain_widening(["spark", "delta-rs"]) is None
    assert explain_widening(["spark", "trino"]) == (
        "it is not known whether trino can read a column of which the type was widened"
    )


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
def test_new_hudi_tables_are_readable_by_all_readers(options: dict[str, Any], chosen: tuple[str, str | None]) -> None:
    sink = hudi(**options)
    sink.check()
    found = sink._table_options.write_options()
    assert (found["hoodie.datasource.write.table.type"], found.get("hoodie.write.table.version")) == chosen


@pytest.mark.parametrize("option", ["table.type", "hoodie.datasource.write.table.type"])
def test_merge_on_read_is_rejected_for_readers_of_base_files_only(option: str) -> None:
    assert refusal(hudi(readers=["spark", "trino"], **{option: "MERGE_ON_READ"})) == (
        f"sink hudi, {option}: merge-on-read writes changes to log files, but trino ignores log files\n"
        "  fix: use COPY_ON_WRITE or remove the option, or remove trino from `readers`"
    )


def test_log_files_are_rejected_in_table_versions_that_would_lose_them() -> None:
    assert refusal(hudi(readers=["spark", "starrocks"], **{"table.type": "MERGE_ON_READ"})) == (
        "sink hudi, table.type: readers require a table version before 8, in which log files must not be written during a "
        "compaction\n  fix: use COPY_ON_WRITE, or remove the option"
    )


@pytest.mark.parametrize("options", [{"readers": ["starrocks"]}, {"hoodie.write.table.version": 6}])
def test_old_table_versions_are_compacted_within_batches(options: dict[str, Any]) -> None:
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
def test_unsupported_table_version_is_rejected(options: dict[str, Any], sentence: str) -> None:
    assert refusal(hudi(**options)) == sentence


@pytest.mark.parametrize(
    ("options", "warnings"),
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
def test_warnings_for_hudi_readers(options: dict[str, Any], warnings: list[str]) -> None:
    assert list(hudi(**options).warnings()) == warnings


# Names


@pytest.mark.parametrize("name", ["order id", "größe", "a.b", "p-q"])
@pytest.mark.parametrize("sink", [iceberg(readers=["spark", "athena"]), hudi(readers=["spark", "athena"])])
def test_column_name_unsupported_by_a_reader_is_rejected(sink: Sink, name: str) -> None:
    with pytest.raises(DataError) as refused:
        sink.check_columns(cast("Any", None), Table("shop.orders"), ["id", name])
    assert str(refused.value) == (
        f"table shop.orders: athena does not support the column name {name!r}: a name consists of English letters, digits and `_`\n"
        "  fix: rename the column with `rename` under `transforms:`, or remove athena from `readers`"
    )


@pytest.mark.parametrize("name", ["1st", "_TABLE_of", "_partition", "x" * 301])
def test_reserved_names_of_bigquery(name: str) -> None:
    with pytest.raises(DataError, match="bigquery does not support the column name"):
        check_reader_names(["bigquery"], [name], "t")
    check_reader_names(["spark", "trino", "pyiceberg"], [name], "t")


def test_nested_names_are_checked() -> None:
    inner = T.StructType().add("deep er", T.IntegerType())
    schema = T.StructType().add("tags", T.MapType(T.StringType(), T.ArrayType(inner))).add("id", T.IntegerType())
    assert list(list_names(schema)) == ["tags", "deep er", "id"]


def test_headrace_columns_have_names_that_every_reader_supports() -> None:
    check_reader_names(load_name_rules(), ["_headrace_position", "_hoodie_is_deleted", "__op"], "t")


# The support tables


def facts() -> list[tuple[str, Support]]:
    found = []
    for table in (iceberg_readers.load_readers(), hudi_readers.load_readers()):
        for name, reader in table.items():
            found += [(f"{name} {key}", value) for key, value in vars(reader).items() if isinstance(value, Support)]
    return found


@pytest.mark.parametrize(("reader", "fact"), facts())
def test_each_support_entry_has_a_source_and_a_date(reader: str, fact: Support) -> None:
    assert fact.reads is Reads.UNKNOWN or fact.source, reader
    if fact.source:
        assert fact.source.where.startswith(("https://", "tested: ")), reader
        assert len(fact.source.date) == len("2026-11-25"), reader
