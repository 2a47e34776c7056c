"""Debezium's placeholder for unavailable values, which must never reach a table as a value."""

from __future__ import annotations

from itertools import zip_longest
from typing import TYPE_CHECKING, Any

import pytest
from tests.support import pipelines
from tests.support.bronze import Bronze, write_lines
from tests.support.tiers import nightly_after

from headrace import ConfigError, Pipeline
from headrace_sources.dialects.debezium import DebeziumDialect
from headrace_sources.dialects.flat import FlatDialect
from headrace_sources.dialects.unavailable_values import PLACEHOLDER, placeholder_tests

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.one_spark]

BYTES = list(PLACEHOLDER.encode())
#: Spark type, placeholder as Debezium's code builds it for that type, and similar values that are not placeholders.
SHAPES: dict[str, tuple[str, Any, list[Any]]] = {
    "text": ("string", PLACEHOLDER, ["", "unavailable", PLACEHOLDER + " ", PLACEHOLDER[:-1]]),
    "base64": ("string", "X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ==", ["X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ"]),
    "hex": ("string", PLACEHOLDER.encode().hex(), ["5f5f"]),
    "hstore as JSON": ("string", f'{{"{PLACEHOLDER}":"{PLACEHOLDER}"}}', ["{}"]),
    "bytea": ("binary", PLACEHOLDER.encode(), [b"", b"_"]),
    "text[]": ("array<string>", [PLACEHOLDER], [[], [None], [PLACEHOLDER, PLACEHOLDER], [PLACEHOLDER, "a"]]),
    "uuid[]": ("array<string>", ["b68a35a7-17ad-35b3-af2a-ae46edb4545a"], [["b68a35a7-17ad-35b3-af2a-ae46edb4545b"]]),
    "bytea[]": ("array<binary>", [PLACEHOLDER.encode()], [[], [b""], [None]]),
    "int[]": ("array<int>", BYTES, [[], [None], BYTES[:-1], [*BYTES, 1]]),
    "bigint[]": ("array<bigint>", BYTES, [[], BYTES[1:]]),
    "hstore": (
        "map<string, string>",
        {PLACEHOLDER: PLACEHOLDER},
        [{}, {PLACEHOLDER: "a"}, {PLACEHOLDER: None}, {"a": "b"}],
    ),
}


@pytest.fixture(scope="module")
def detected(spark: SparkSession) -> dict[str, list[bool]]:
    """Return shape → whether each value is detected, from one plan with a column per shape. The last value is null."""
    from pyspark.sql import functions as F

    columns = [[placeholder, *others, None] for _, placeholder, others in SHAPES.values()]
    kinds = ", ".join(f"v{i} {kind}" for i, (kind, _, _) in enumerate(SHAPES.values()))
    rows = [(n, *row) for n, row in enumerate(zip_longest(*columns))]
    frame = spark.createDataFrame(rows, f"n int, {kinds}").coalesce(1)
    tests = placeholder_tests({f"v{i}": frame.schema[f"v{i}"].dataType for i in range(len(SHAPES))}, PLACEHOLDER)
    assert list(tests) == [f"v{i}" for i in range(len(SHAPES))]
    found = frame.select("n", *(test(F.col(name)).alias(name) for name, test in tests.items())).orderBy("n").collect()
    return {
        shape: [bool(row[f"v{i}"]) for row in found[: len(values)]]
        for i, (shape, values) in enumerate(zip(SHAPES, columns, strict=True))
    }


@pytest.mark.parametrize("shape", SHAPES)
def test_only_the_placeholder_is_detected(detected: dict[str, list[bool]], shape: str) -> None:
    _, _, others = SHAPES[shape]
    # The detection of null is null, which is no detection.
    assert detected[shape] == [True, *[False] * len(others), False]


def test_placeholder_in_array_of_dates(spark: SparkSession) -> None:
    from pyspark.sql import functions as F

    days = [F.date_from_unix_date(F.lit(byte)) for byte in BYTES]
    frame = spark.range(1).select(F.array(*days).alias("v"), F.array(*days[1:]).alias("other"))
    tests = placeholder_tests({field.name: field.dataType for field in frame.schema}, PLACEHOLDER)
    assert tuple(frame.select(tests["v"](F.col("v")), tests["other"](F.col("other"))).first() or ()) == (True, False)


def test_hexadecimal_placeholder(spark: SparkSession) -> None:
    """Java's bytes are signed, and bytes that are not UTF-8 are replaced in strings."""
    from pyspark.sql import functions as F

    data = bytes.fromhex("c3bcff")
    shapes = {
        "text": ("string", "ü\ufffd"),
        "base64": ("string", "w7z/"),
        "hex": ("string", "c3bcff"),
        "bytea": ("binary", data),
        "text[]": ("array<string>", ["ü\ufffd"]),
        "int[]": ("array<int>", [-61, -68, -1]),
        "hstore": ("map<string, string>", {"ü\ufffd": "ü\ufffd"}),
        "another text": ("string", "hex:c3bcff"),
    }
    schema = ", ".join(f"`{name}` {kind}" for name, (kind, _) in shapes.items())
    frame = spark.createDataFrame([tuple(value for _, value in shapes.values())], schema)
    tests = placeholder_tests({field.name: field.dataType for field in frame.schema}, "hex:c3BCff")
    (row,) = frame.select(*(test(F.col(f"`{name}`")).alias(name) for name, test in tests.items())).collect()
    assert row.asDict() == {name: name != "another text" for name in shapes}


@pytest.mark.parametrize("placeholder", ["hex:", "hex:5", "hex:5f 5f", "hex:value"])
def test_placeholder_with_invalid_hexadecimal_digits_is_rejected(placeholder: str) -> None:
    for dialect in (DebeziumDialect, FlatDialect):
        with pytest.raises(ConfigError, match=r"unavailable\.value\.placeholder: .* two hexadecimal digits per byte"):
            dialect({"unavailable.value.placeholder": placeholder})


def test_other_types_have_no_placeholder(spark: SparkSession) -> None:
    schema = spark.createDataFrame(
        [],
        "a int, b decimal(10,2), c timestamp, d double, e boolean, f struct<x: string>, g map<string, bigint>, "
        "h map<string, date>, i map<string, struct<x: string>>, j array<map<string, string>>, k map<int, string>",
    ).schema
    assert placeholder_tests({field.name: field.dataType for field in schema}, PLACEHOLDER) == {}


@pytest.mark.parametrize("placeholder", nightly_after(1, [PLACEHOLDER, "<left out>"]))
@pytest.mark.parametrize("sink", nightly_after(1, [*pipelines.TABLE_SINKS, "files"]))
def test_placeholder_never_reaches_a_table(tmp_path: Path, spark: SparkSession, sink: str, placeholder: str) -> None:
    bronze = Bronze(tmp_path / "bronze")
    artists = bronze.topic(pipelines.TOPIC, key="artist_id", columns=pipelines.COLUMNS, full=False)
    arp = {"artist_id": 1, "name": "Arp", "nationality": "German"}
    artists.insert(arp)
    artists.update(arp, {**arp, "name": "Hans Arp", "nationality": placeholder})
    bronze.flush()
    unwrap = {"delete.tombstone.handling.mode": "drop"} if sink == "files" else {}
    dialects = {"debezium": {"unavailable.value.placeholder": placeholder}}
    pipeline = pipelines.pipeline(tmp_path, sink, transforms=[{"unwrap": unwrap}], dialects=dialects)
    pipeline.run(spark)
    nationalities = [row["nationality"] for row in pipelines.rows(pipeline, spark)]
    assert nationalities == (["German", None] if sink == "files" else ["German"])
    if sink != "files":
        artists.update(arp, {**arp, "name": "Jean Arp", "nationality": placeholder})
        bronze.flush()
        pipeline.run(spark)
        assert pipelines.rows(pipeline, spark) == [{**arp, "name": "Jean Arp"}]


@pytest.mark.nightly
def test_appended_rows_name_unavailable_columns(tmp_path: Path, spark: SparkSession) -> None:
    bronze = Bronze(tmp_path / "bronze")
    artists = bronze.topic(pipelines.TOPIC, key="artist_id", columns=pipelines.COLUMNS, full=False)
    arp = {"artist_id": 1, "name": "Arp", "nationality": "German"}
    artists.insert(arp)
    bronze.flush()
    pipeline = pipelines.pipeline(
        tmp_path,
        transforms=[{"unwrap": {"delete.tombstone.handling.mode": "drop"}}],
        sinks=[pipelines.sink_block("iceberg", tmp_path, mode="append")],
    )
    pipeline.run(spark)
    artists.update(arp, {**arp, "name": PLACEHOLDER, "nationality": PLACEHOLDER})
    artists.update(arp, {**arp, "name": "Hans Arp"})
    bronze.flush()
    pipeline.run(spark)
    found = pipelines.rows(pipeline, spark, key="_headrace_position", own_columns=True)
    assert [(row["name"], row["nationality"], row["_headrace_unchanged"]) for row in found] == [
        ("Arp", "German", None),
        (None, None, ["name", "nationality"]),
        ("Hans Arp", "German", None),
    ]


def test_placeholder_in_kept_envelopes(tmp_path: Path, spark: SparkSession) -> None:
    bronze = Bronze(tmp_path / "bronze")
    artists = bronze.topic(pipelines.TOPIC, key="artist_id", columns=pipelines.COLUMNS)
    arp = {"artist_id": 1, "name": "Arp", "nationality": "German"}
    artists.update(arp, {**arp, "nationality": PLACEHOLDER})
    bronze.flush()
    pipeline = pipelines.pipeline(tmp_path, transforms=[])
    pipeline.run(spark)
    (row,) = pipelines.rows(pipeline, spark, key="ts_ms")
    assert (row["before"]["nationality"], row["after"]["name"], row["after"]["nationality"]) == ("German", "Arp", None)


@pytest.mark.nightly
def test_renamed_and_masked_column(tmp_path: Path, spark: SparkSession) -> None:
    bronze = Bronze(tmp_path / "bronze")
    artists = bronze.topic(pipelines.TOPIC, key="artist_id", columns=pipelines.COLUMNS, full=False)
    arp = {"artist_id": 1, "name": "Arp", "nationality": "German"}
    artists.insert(arp)
    bronze.flush()
    transforms: list[Any] = [
        {"unwrap": {}},
        {"rename": {"columns": {"nationality": "country"}}},
        {"mask": {"columns": {"country": {"sha256": {"salt": "pepper"}}}}},
    ]
    pipeline = pipelines.pipeline(tmp_path, transforms=transforms)
    pipeline.run(spark)
    masked = pipelines.rows(pipeline, spark)[0]["country"]
    assert len(masked) == 64
    artists.update(arp, {**arp, "name": "Hans Arp", "nationality": PLACEHOLDER})
    bronze.flush()
    pipeline.run(spark)
    assert pipelines.rows(pipeline, spark) == [{"artist_id": 1, "name": "Hans Arp", "country": masked}]


@pytest.mark.nightly
def test_update_of_a_key_that_a_rule_names_keeps_omitted_values(tmp_path: Path, spark: SparkSession) -> None:
    def change(op: str, lsn: int, before: tuple[int, str] | None, after: tuple[int, str] | None) -> dict[str, Any]:
        rows = {
            name: row and dict(zip(("id", "doc"), row, strict=True))
            for name, row in (("before", before), ("after", after))
        }
        return {**rows, "source": {"connector": "postgresql", "lsn": lsn, "sequence": f'["{lsn}","{lsn}"]'}, "op": op}

    folder = tmp_path / "bronze" / "people"
    config: dict[str, Any] = {
        "name": "people",
        "source": {"files": {"path": str(tmp_path / "bronze"), "format": "json"}},
        "tables": [{"source": "people", "key": "id"}],
        "transforms": [{"unwrap": {}}],
        "sink": {"iceberg": {"warehouse": str(tmp_path / "lake")}},
        "checkpoint": str(tmp_path / "checkpoint"),
    }
    write_lines(folder / "0.json", [change("c", 1, None, (5, "five"))])
    Pipeline.from_dict(config).run(spark)
    lines = [
        change("c", 2, None, (6, "earlier")),
        change("d", 3, (6, "earlier"), None),
        change("u", 4, (5, PLACEHOLDER), (6, PLACEHOLDER)),
        change("c", 5, None, (8, "eight")),
        change("u", 6, (8, "eight"), (9, PLACEHOLDER)),
        change("u", 7, (9, PLACEHOLDER), (10, PLACEHOLDER)),
    ]
    write_lines(folder / "1.json", lines)
    Pipeline.from_dict(config).run(spark)
    rows = Pipeline.from_dict(config).read("people", spark=spark).select("id", "doc").orderBy("id").collect()
    assert [tuple(row) for row in rows] == [(6, "five"), (10, "eight")]


def test_placeholder_in_flat_rows(tmp_path: Path, spark: SparkSession) -> None:
    folder = tmp_path / "bronze" / "people"
    write_lines(folder / "0.json", [{"id": 1, "name": "a", "bio": "long", "__op": "c", "__lsn": 5}])
    config: dict[str, Any] = {
        "name": "people",
        "source": {"files": {"path": str(tmp_path / "bronze"), "format": "json"}},
        "tables": [{"source": "people", "key": "id"}],
        "sink": {"iceberg": {"warehouse": str(tmp_path / "lake")}},
        "checkpoint": str(tmp_path / "checkpoint"),
    }
    pipeline = Pipeline.from_dict(config)
    pipeline.run(spark)
    write_lines(folder / "1.json", [{"id": 1, "name": "b", "bio": PLACEHOLDER, "__op": "u", "__lsn": 6}])
    pipeline.run(spark)
    (row,) = pipeline.read("people", spark=spark).collect()
    assert (row["name"], row["bio"]) == ("b", "long")
