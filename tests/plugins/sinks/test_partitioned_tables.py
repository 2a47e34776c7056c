"""Partitioned tables of each format. The sink kit does not cover partitions, because some sinks have none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.support import pipelines
from tests.support.tiers import nightly_after

from headrace import ConfigError
from headrace.sdk import Sink
from headrace.spark.sessions import Sessions
from headrace.testing.tables import Target, put, remove
from headrace_sinks import FilesSink, HudiSink, IcebergSink

pytestmark = pytest.mark.spark

PEOPLE = "id int, name string"
SINKS: dict[str, type[Sink]] = {"iceberg": IcebergSink, "hudi": HudiSink}
TYPES = {"iceberg": ("merge-on-read", "copy-on-write"), "hudi": ("MERGE_ON_READ", "COPY_ON_WRITE")}
#: Options that partition tables by the column ``city``, and the location of errors about these options.
BY_CITY: dict[str, dict[str, Any]] = {
    "iceberg": {"partition.by": {"other.*": ["born"], "kit.*": ["city"], "*": ["born"]}},
    "hudi": {"hoodie.datasource.write.partitionpath.field": "city"},
}
WHERE = {"iceberg": "sink iceberg, partition.by", "hudi": "sink hudi, hoodie.datasource.write.partitionpath.field"}
#: Number of rows that a merge changed, if the commit reports it. Log appends in Hudi and copy-on-write in Iceberg do not report it.
MERGED = {"merge-on-read": 2, "copy-on-write": None, "MERGE_ON_READ": None, "COPY_ON_WRITE": 2}


@pytest.fixture(
    params=nightly_after(
        1,
        [pytest.param((name, kind), id=f"{name}-{kind}") for name in pipelines.TABLE_SINKS for kind in TYPES[name]],
    )
)
def table_format(request: pytest.FixtureRequest) -> tuple[str, str]:
    """Return the name of a sink and a type of its tables."""
    name, table_type = request.param
    return str(name), str(table_type)


def target(folder: Path, sessions: Sessions, table_format: tuple[str, str], **options: Any) -> Target:
    name, table_type = table_format
    (config,) = pipelines.sink_block(name, folder, **{"table.type": table_type}, **options).values()
    return Target(SINKS[name](config), sessions.of("one"))


def test_counts_and_sizes_come_from_the_commit_metadata(
    tmp_path: Path, sessions: Sessions, table_format: tuple[str, str]
) -> None:
    table = target(tmp_path, sessions, table_format)
    first = table.write(PEOPLE, put(1, 1, "a"), put(5, 2, "b"), remove(1, 9, None))
    assert first.upserted == 2
    assert first.bytes
    second = table.write(PEOPLE, put(2, 1, "A"), put(4, 2, "late"), put(1, 3, "c"), remove(1, 8, None))
    assert second.upserted == MERGED[table_format[1]]
    assert second.bytes
    if table_format[1] == "merge-on-read":
        assert table.write(PEOPLE, put(3, 2, "later")).upserted == 0


def test_rows_move_between_partitions(tmp_path: Path, sessions: Sessions, table_format: tuple[str, str]) -> None:
    name, _ = table_format
    table = target(tmp_path, sessions, table_format, **BY_CITY[name])
    schema = "id int, city string, name string"
    table.write(schema, put(1, 1, "x", "a"), put(1, 2, "x", "b"), put(1, 3, None, "c"), put(9, 4, "y", "d"))
    # A partition change, a delete without a partition value, a change from a null partition, and a late change.
    table.write(schema, put(2, 1, "y", "A"), remove(2, 2, None, None), put(2, 3, "y", "C"), put(8, 4, "x", "late"))
    table.write(schema, remove(8, 4, None, None), put(3, 1, "z", "AA"))
    assert [(row["id"], row["city"], row["name"]) for row in table.rows()] == [
        (1, "z", "AA"),
        (3, "y", "C"),
        (4, "y", "d"),
    ]
    folder = tmp_path / "lake" / name / table.name.replace(".", "/")
    if name == "iceberg":
        assert {path.name for path in (folder / "data").iterdir()} == {"city=x", "city=y", "city=z", "city=null"}
    else:
        assert (folder / "z").is_dir()


@pytest.mark.parametrize("name", nightly_after(1, pipelines.TABLE_SINKS))
def test_missing_partition_column(tmp_path: Path, sessions: Sessions, name: str) -> None:
    table = target(tmp_path, sessions, (name, TYPES[name][0]), **BY_CITY[name])
    error = table.refusal(lambda: table.write(PEOPLE, put(1, 1, "a")))
    assert isinstance(error, ConfigError)
    assert error.where == WHERE[name]
    assert f"table {table.name!r} has no column 'city' to partition by; its columns are id, name" in str(error)
    # A batch of only deletes does not need the column.
    table.write("id int", remove(2, 1))
    table.write("id int, city string", put(3, 2, "x"))
    assert [(row["id"], row["city"]) for row in table.rows()] == [(2, "x")]


@pytest.mark.parametrize("name", nightly_after(1, [*pipelines.TABLE_SINKS, "files"]))
def test_column_names_are_case_insensitive(tmp_path: Path, sessions: Sessions, name: str) -> None:
    ((name, config),) = pipelines.sink_block(name, tmp_path).items()
    sinks: dict[str, type[Sink]] = {**SINKS, "files": FilesSink}
    table = Target(sinks[name](config), sessions.of("one"))
    table.write("id int, Name string, s struct<A: int>, l array<struct<A: int>>", put(1, 1, "a", (1,), [(1,)]))
    table.write("id int, nAME string, S struct<a: int>, L array<struct<a: int>>", put(2, 2, "b", (2,), [(2,)]))
    assert table.rows() == [
        {"id": 1, "Name": "a", "s": {"A": 1}, "l": [{"A": 1}]},
        {"id": 2, "Name": "b", "s": {"A": 2}, "l": [{"A": 2}]},
    ]
