"""Values of rows that Hudi stores as paths and as record keys."""

from __future__ import annotations

import json
from collections.abc import Mapping
from decimal import Decimal
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as F
from tests.support.tiers import nightly_after

from headrace import ConfigError, DataError, Pipeline
from headrace.sdk.sink import Mode
from headrace.spark.sessions import Sessions
from headrace.testing.tables import Target, put, remove
from headrace_sinks.hudi import HudiSink

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.one_spark]

WRITE = "hoodie.datasource.write."
PARTITION, ENCODED, HIVE_STYLE = (
    f"{WRITE}partitionpath.field",
    f"{WRITE}partitionpath.urlencode",
    f"{WRITE}hive_style_partitioning",
)
BY_CITY = {PARTITION: "city"}
Options = Mapping[str, str]
VISITS = "id int, city string, turn int"
CITIES = [
    "Brno",
    "x=y",
    "%2F",
    "/a",
    "a/",
    "a//b",
    "../orders/Brno",
    "10:30",
    " ",
    "č🐎",
    "a\n\x01\t",
    "?*[{",
    "city=a",
    "_a",
    None,
]
#: Values whose folder would be another one, or cannot exist.
NO_FOLDERS = ["", "__HIVE_DEFAULT_PARTITION__", "x" * 256, "/" * 86]
#: Values that are folders only behind the name of their column.
NO_FOLDERS_ALONE = [".", "..", ".hoodie"]


@pytest.mark.parametrize(
    ("hive_style", "table_type"), nightly_after(1, [(False, "MERGE_ON_READ"), (True, "COPY_ON_WRITE")])
)
def test_partition_values_are_read_back_or_are_dead_letters(
    tmp_path: Path, spark: SparkSession, hive_style: bool, table_type: str
) -> None:
    cities = dict(enumerate([*CITIES, *NO_FOLDERS_ALONE, *NO_FOLDERS]))
    rejected = {*NO_FOLDERS, *(() if hive_style else NO_FOLDERS_ALONE)}
    options = {"table.type": table_type, HIVE_STYLE: str(hive_style).lower(), **BY_CITY}
    job = Pipeline.from_dict(
        {
            "name": "visits",
            "source": {"files": {"path": f"{tmp_path}/bronze", "format": "json"}},
            "tables": [{"source": "visits", "key": ["id"], "target": "shop.visits"}],
            "sink": {"hudi": {"path": f"{tmp_path}/lake", **options}},
            "checkpoint": f"{tmp_path}/checkpoint",
        }
    )
    folder = tmp_path / "bronze" / "visits"
    folder.mkdir(parents=True)
    for turn in (1, 2):
        rows = [{"id": number, "city": city, "turn": turn} for number, city in cities.items()]
        (folder / f"{turn}.json").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        (progress,) = job.run(spark).tables
        assert (progress.applied, progress.dead_letters) == (len(cities) - len(rejected), len(rejected))
    found = sorted(job.read("shop.visits", spark=spark).select("id", "city", "turn").collect())
    assert found == [(number, city, 2) for number, city in cities.items() if city not in rejected]
    dead_letters = job.read_dead_letters(spark)
    assert dead_letters is not None
    assert {row["reason"] for row in dead_letters.collect()} == {"unsupported-value"}
    assert [path.name for path in (tmp_path / "lake").iterdir()] == ["shop"]
    assert [path.name for path in (tmp_path / "lake" / "shop").iterdir()] == ["visits"]
    assert all(path.is_dir() for path in (tmp_path / "lake/shop/visits").iterdir())


def target(
    folder: Path, sessions: Sessions, options: Options = MappingProxyType({}), key: tuple[str, ...] = ("id",)
) -> Target:
    return Target(HudiSink({"path": str(folder), **options}), sessions.of("one"), key=key)


@pytest.mark.nightly
def test_existing_table_keeps_its_partition_paths(tmp_path: Path, sessions: Sessions) -> None:
    before = target(tmp_path, sessions, {ENCODED: "false", **BY_CITY})
    before.write(VISITS, put(1, 1, "a/b", 1), put(1, 2, "c", 1))
    after = target(tmp_path, sessions, BY_CITY)
    after.name = before.name
    after.write(VISITS, put(2, 1, "a/b", 2), put(2, 3, "a b", 2))
    found = [(row["id"], row["city"], row["turn"]) for row in after.rows()]
    assert found == [(1, "a/b", 2), (2, "c", 1), (3, "a b", 2)]
    wrong = ["/a", "a/", "a//b", "a/../b", "..", "x=y", "%2F", "10:30", ""]
    rows = after.frame(VISITS, *[put(3, number, city, 3) for number, city in enumerate(["fine", *wrong])])
    unsupported = after.sink.find_unsupported(after.session, after.table, "upsert", rows.schema)
    assert unsupported is not None
    assert [row["city"] for row in rows.where(unsupported).orderBy("id").collect()] == wrong
    # A batch that was not checked fails, except for deletes.
    error = after.refusal(lambda: after.write(VISITS, put(3, 4, "..", 3)))
    assert isinstance(error, DataError)
    assert "cannot be the name of a folder" in str(error)
    after.write(VISITS, remove(4, 2, "..", 0))
    assert [row["id"] for row in after.rows()] == [1, 3]
    after.sink = HudiSink({"path": str(tmp_path), ENCODED: "true", **BY_CITY})
    with pytest.raises(ConfigError, match=f"{ENCODED}: the table was created with 'false'"):
        after.sink.check_stored(after.session, after.table)


TEXTS = ["a", "a:b", "a,b", "a,second:b", "a:b:c,d", "", "%", "%2C", "__empty__", "__null__", "č\n"]


@pytest.mark.parametrize("options", nightly_after(1, [{}, {PARTITION: "second"}]), ids=["plain", "partitioned"])
def test_keys_of_strings_do_not_collide(tmp_path: Path, sessions: Sessions, options: dict[str, str]) -> None:
    keys = sorted((first, second) for first in TEXTS for second in TEXTS if second or not options)
    table = target(tmp_path, sessions, options, ("first", "second"))
    for turn in (1, 2):
        table.write("first string, second string, turn int", *[put(turn, *key, turn) for key in keys])
    table.write("first string, second string, turn int", *[remove(3, *key, 0) for key in keys[::2]])
    found = sorted((row["first"], row["second"], row["turn"]) for row in table.rows())
    assert found == [(*key, 2) for key in keys[1::2]]


def test_one_string_is_any_key(tmp_path: Path, sessions: Sessions) -> None:
    table = target(tmp_path, sessions)
    for turn in (1, 2):
        table.write("id string, turn int", *[put(turn, text, turn) for text in TEXTS])
    assert sorted(tuple(row.values()) for row in table.rows()) == sorted((text, 2) for text in TEXTS)


def test_negative_zero_is_the_key_zero(tmp_path: Path, sessions: Sessions) -> None:
    table = target(tmp_path, sessions)
    for rows in [put(1, "0.0", "a")], [remove(2, "0.0", None), put(3, "-0.0", "b")]:
        table.apply(table.frame("id string, name string", *rows).withColumn("id", F.col("id").cast("double")))
    assert table.rows() == [{"id": 0.0, "name": "b"}]


def test_key_in_another_case_than_the_stored_column(tmp_path: Path, sessions: Sessions) -> None:
    """Two topics of one table, or two versions of a schema, may spell a column differently."""
    for kind, first, second in (("int", 1, 2), ("string", "a,", "")):
        table = target(tmp_path, sessions)
        table.write(f"id {kind}, name string", put(1, first, "a"), put(1, second, "b"))
        table.key = ("ID",)
        table.write(f"ID {kind}, name string", put(2, first, "A"), remove(2, second, None))
        assert table.rows() == [{"id": first, "name": "A"}]


def test_existing_table_keeps_its_record_keys(tmp_path: Path, sessions: Sessions) -> None:
    columns = "first string, second string, turn int"
    before = target(tmp_path, sessions, {f"{WRITE}recordkey.field": "first,second"}, ("first", "second"))
    before.write(columns, put(1, "a", "b", 1), put(1, "a:b", "", 1))
    after = target(tmp_path, sessions, key=("first", "second"))
    after.name = before.name
    after.write(columns, put(2, "a", "b", 2), remove(2, "a:b", "", 0))
    assert [tuple(row.values()) for row in after.rows()] == [("a", "b", 2)]
    keys = [(first, "x") for first in ("fine", "a,second:b", "a:b:c,d:e", "__empty__", "__null__")]
    rows = after.frame(columns, *[put(3, *key, 3) for key in keys])
    unsupported = after.sink.find_unsupported(after.session, after.table, "upsert", rows.schema)
    assert unsupported is not None
    assert [row["first"] for row in rows.where(unsupported).collect()] == [first for first, _ in keys[1:]]


@pytest.mark.parametrize(
    ("created", "value", "wider", "wide_value"),
    nightly_after(
        1, [("decimal(10,2)", Decimal("1.50"), "decimal(11,3)", Decimal("1.500")), ("int", 1, "double", 1.0)]
    ),
    ids=["decimal", "int"],
)
def test_key_and_partition_columns_are_not_widened(
    tmp_path: Path, sessions: Sessions, created: str, value: object, wider: str, wide_value: object
) -> None:
    table = target(tmp_path, sessions, BY_CITY)
    table.write(f"id {created}, city {created}", put(1, value, value))
    for columns, column in ((f"id {wider}, city {created}", "id"), (f"id {created}, city {wider}", "city")):
        values = [wide_value if name == column else value for name in ("id", "city")]
        error = table.refusal(partial(table.write, columns, put(2, *values)))
        assert isinstance(error, DataError)
        assert f"column {column!r} has type {wider} in the batch and {created} in the table" in str(error)
    assert [tuple(row.values()) for row in table.rows()] == [(value, value)]


@pytest.mark.parametrize(
    ("before", "after", "rows"), [("upsert", "append", "one row per key"), ("append", "upsert", "one row per change")]
)
def test_mode_of_an_existing_table_does_not_change(
    tmp_path: Path, sessions: Sessions, before: Mode, after: Mode, rows: str
) -> None:
    table = target(tmp_path, sessions)
    table.apply(table.frame("id int", put(1, 1)), mode=before)
    error = table.refusal(lambda: table.apply(table.frame("id int", put(2, 2)), mode=after))
    assert isinstance(error, ConfigError)
    assert f"the table has {rows}, and the sink's mode is now {after}" in str(error)
    assert table.rows() == [{"id": 1}]


@pytest.mark.parametrize(
    ("first", "second", "text"),
    [
        ("visits", "visits.archive", "/visits, where a partition may have the same name"),
        ("visits.archive.old", "visits", "/visits/archive/old, and a partition may have the same name"),
    ],
)
def test_table_in_the_folder_of_a_partitioned_table_is_rejected(
    tmp_path: Path, sessions: Sessions, first: str, second: str, text: str
) -> None:
    """A row's value must not choose the folder of another table."""
    tables = {name: target(tmp_path, sessions, BY_CITY if name == "visits" else {}) for name in (first, second)}
    for name, table in tables.items():
        table.name = name
    tables[first].write(VISITS, put(1, 1, "Brno", 1))
    error = tables[second].refusal(lambda: tables[second].write(VISITS, put(2, 1, "Brno", 1)))
    assert isinstance(error, ConfigError)
    assert text in str(error)


def test_timestamps_are_not_partition_values(tmp_path: Path, sessions: Sessions) -> None:
    table = target(tmp_path, sessions, BY_CITY)
    error = table.refusal(lambda: table.write("id int, city timestamp", put(1, 1, None)))
    assert isinstance(error, ConfigError)
    assert "Hudi does not read values of the type timestamp from partition paths" in str(error)


@pytest.mark.parametrize("table_type", nightly_after(1, ["MERGE_ON_READ", "COPY_ON_WRITE"]))
def test_delete_of_a_row_with_a_literal_column(tmp_path: Path, sessions: Sessions, table_type: str) -> None:
    """Truncates and tombstones delete rows by their key alone."""
    table = target(tmp_path, sessions, {"table.type": table_type})
    regions = F.struct(F.lit("eu").alias("region"))
    table.apply(table.frame("id int", put(1, 1), put(1, 2)).withColumns({"at": F.lit(1), "s": regions}))
    table.write("id int", remove(2, 1))
    assert table.rows() == [{"id": 2, "at": 1, "s": {"region": "eu"}}]


def test_union_is_a_struct(tmp_path: Path, sessions: Sessions) -> None:
    union = "struct<member0: struct<a: int>, member1: struct<b: string>>"
    columns = f"id int, u {union}, s struct<u: {union}>, l array<{union}>, m map<string, {union}>"
    values = {1: ((1,), None), 2: (None, ("b",)), 3: None}
    table = target(tmp_path, sessions)
    for turn in (1, 2):
        table.write(columns, *[put(turn, number, u, (u,), [u, None], {"k": u}) for number, u in values.items()])
    members = {1: {"member0": {"a": 1}, "member1": None}, 2: {"member0": None, "member1": {"b": "b"}}, 3: None}
    assert table.rows() == [
        {"id": number, "u": u, "s": {"u": u}, "l": [u, None], "m": {"k": u}} for number, u in members.items()
    ]


def test_appended_rows_of_any_file_name(tmp_path: Path, sessions: Sessions) -> None:
    table = target(tmp_path, sessions)
    for _ in range(2):  # the second batch repeats the rows of the first
        table.apply(table.frame("id int", put(1, 1)).withColumn("_headrace_position", F.lit("a:b:c,d")), mode="append")
    assert table.rows() == [{"id": 1}]
