"""Hudi tables read by hudi-rs, which shares no code with Spark, and tables that contradict their configured readers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hudi import HudiTableBuilder
from tests.support.tiers import nightly_after

from headrace import ConfigError
from headrace.sdk.maintenance import MaintenancePolicy
from headrace.spark.sessions import Sessions
from headrace.testing.tables import Target, put, remove
from headrace_sinks.hudi import HudiSink

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

PEOPLE = "id int, name string"
EVERYTHING = MaintenancePolicy(history_seconds=3600, files=2)
COMPACTED = ["planned", "2 log files into 1"]


@pytest.fixture
def session(sessions: Sessions) -> SparkSession:
    return sessions.of("readers")


def make(folder: Path, session: SparkSession, **options: Any) -> Target:
    # With one bucket, compaction is due soon.
    options = {"hoodie.bucket.index.num.buckets": 1, **options}
    return Target(HudiSink(path=str(folder), **options), session, name="shop.people")


def read_by_hudi_rs(folder: Path) -> list[dict[str, Any]]:
    table = HudiTableBuilder.from_base_uri(str(folder / "shop/people")).build()
    return sorted(pa.Table.from_batches(table.read()).to_pylist(), key=lambda row: row["id"])


def read_by_spark(target: Target) -> list[dict[str, Any]]:
    rows = target.sink.read_back(target.session, target.table).orderBy("id").collect()
    return [row.asDict(recursive=True) for row in rows]


def table_properties(folder: Path) -> dict[str, str]:
    lines = (folder / "shop/people/.hoodie/hoodie.properties").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if "=" in line)


@pytest.mark.parametrize(
    ("readers", "table_type", "version", "key", "compacted"),
    nightly_after(
        1,
        [
            # hudi-rs rejects log files with a wider type.
            (["spark", "hudi-rs"], "MERGE_ON_READ", "9", "int", COMPACTED),
            # Readers of old table versions get an old table version, which compaction does not change.
            (["spark", "hudi-rs", "athena"], "COPY_ON_WRITE", "6", "bigint", []),
        ],
    ),
)
def test_hudi_rs_and_spark_read_the_same_rows(
    tmp_path: Path,
    session: SparkSession,
    readers: list[str],
    table_type: str,
    version: str,
    key: str,
    compacted: list[str],
) -> None:
    target = make(tmp_path, session, readers=readers)
    target.write(PEOPLE, *[put(1, number, f"n{number}") for number in range(1, 5)])
    target.write(PEOPLE, put(2, 1, "newer"), remove(2, 2, None))
    target.write(f"id {key}, name string, born int", put(3, 3, "c", 1900), put(3, 6, "f", 1950))
    done: list[str] = []
    for _ in range(2):
        by_hudi_rs = read_by_hudi_rs(tmp_path)
        assert by_hudi_rs == read_by_spark(target)
        found = [(row["id"], row["name"], row["born"]) for row in by_hudi_rs]
        assert found == [(1, "newer", None), (3, "c", 1900), (4, "n4", None), (6, "f", 1950)]
        properties = table_properties(tmp_path)
        assert (properties["hoodie.table.type"], properties["hoodie.table.version"]) == (table_type, version)
        done += [step.run() for step in target.sink.plan_maintenance(session, target.table, EVERYTHING)]
    assert done == compacted


@pytest.mark.parametrize(
    ("reader", "sentence", "fix"),
    [
        (
            "trino",
            "the table is MERGE_ON_READ, and trino ignores log files; the type of an existing table does not change",
            "rewrite the table in another `path`, or remove trino from `readers`",
        ),
        (
            "starrocks",
            "the table has table version 9, and starrocks reads up to 6",
            (
                "CALL downgrade_table(table => 'shop.people', to_version => 'SIX'), or rewrite the table in another `path`; or "
                "remove starrocks from `readers`"
            ),
        ),
    ],
)
def test_table_for_other_readers_fails_check_and_next_batch(
    tmp_path: Path, session: SparkSession, reader: str, sentence: str, fix: str
) -> None:
    before = make(tmp_path, session)
    before.write(PEOPLE, put(1, 1, "a"))
    after = make(tmp_path, session, readers=["spark", reader])
    for work in (lambda: after.sink.check_stored(session, after.table), lambda: after.write(PEOPLE, put(2, 2, "b"))):
        with pytest.raises(ConfigError) as refused:
            work()
        assert (refused.value.what, refused.value.fix) == (sentence, fix)
        assert refused.value.where == "table shop.people, sink hudi, readers"
    assert before.rows() == [{"id": 1, "name": "a"}]
    make(tmp_path, session, readers=["spark", "hudi-rs"]).sink.check_stored(session, before.table)
