"""Hudi tables that another writer changes or maintains with Hudi's own tools: rows stay correct, or an error reports it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.support.hudi import load_table_services

from headrace.errors import ConfigError, HeadraceError, RetriableError
from headrace.sdk.maintenance import MaintenancePolicy
from headrace.spark.sessions import Sessions
from headrace.testing._internal.meantime import in_the_meantime
from headrace.testing.tables import Row, Target, put, remove
from headrace_sinks.hudi import HudiSink
from headrace_sinks.hudi.hudi_timeline import open_table

pytestmark = [pytest.mark.spark, pytest.mark.one_spark]

PEOPLE = "id int, name string"
ALL = MaintenancePolicy(history_seconds=0, files=2)
#: Options that headrace omits and Hudi's own tools set.
TOOLS = {"hoodie.metadata.enable": "true", "hoodie.datasource.write.recordkey.field": "id"}
PARTITIONED = {"hoodie.datasource.write.partitionpath.field": "name"}


def make(folder: Path, sessions: Sessions, options: dict[str, str]) -> Target:
    sink = HudiSink({"path": str(folder), "hoodie.bucket.index.num.buckets": 1, **options})
    target = Target(sink, sessions.of("one"))
    target.write(PEOPLE, *[put(1, number, "old") for number in range(4)])
    return target


def folder_of(target: Target) -> Path:
    return Path(load_table_services(target).path.removeprefix("file:"))


def rows(target: Target) -> dict[int, str]:
    """Return the rows as headrace reads them, and compare them with a plain Spark read."""
    found = {row["id"]: row["name"] for row in target.rows()}
    by_default = (
        target.session.read.format("hudi").load(load_table_services(target).path).select("id", "name").collect()
    )
    assert sorted(map(tuple, by_default)) == sorted(found.items())
    return found


def client_of(target: Target, **options: str) -> Any:
    """Return a Hudi client with the options of Hudi's own tools."""
    jvm: Any = target.session._jvm
    services, table = load_table_services(target), open_table(target.session, load_table_services(target).path)
    schema = str(jvm.org.apache.hudi.common.table.TableSchemaResolver(table).getTableSchema().toString())
    all_options = {**services.options, **services.own_options, **TOOLS, **options}
    name, java = all_options["hoodie.table.name"], target.session.sparkContext._jsc
    return jvm.org.apache.hudi.DataSourceUtils.createHoodieClient(java, schema, services.path, name, all_options)


def use_client(target: Target, action: Callable[[Any], object], **options: str) -> None:
    client = client_of(target, **options)
    try:
        action(client)
    finally:
        client.close()


def timeline_of(target: Target) -> Any:
    return open_table(target.session, load_table_services(target).path).getActiveTimeline()


def list_instants(timeline: Any) -> list[str]:
    return [str(instant.requestedTime()) for instant in timeline.getInstants()]


def empty_option(target: Target) -> Any:
    jvm: Any = target.session._jvm
    return jvm.org.apache.hudi.common.util.Option.empty()


def plan_compaction(target: Target) -> None:
    options = {"hoodie.compact.inline.max.delta.commits": "1"}
    use_client(target, lambda client: client.scheduleCompaction(empty_option(target)), **options)


def compact(target: Target) -> None:
    plan_compaction(target)
    planned = list_instants(timeline_of(target).filterPendingCompactionTimeline())
    use_client(target, lambda client: [client.compact(instant, True) for instant in planned])


def plan_clustering(target: Target) -> None:
    use_client(target, lambda client: client.scheduleClustering(empty_option(target)))


def cluster(target: Target) -> None:
    plan_clustering(target)
    run_clustering(target)


def run_clustering(target: Target) -> None:
    planned = list_instants(timeline_of(target).filterPendingClusteringTimeline())
    use_client(target, lambda client: [client.cluster(instant, True) for instant in planned])


def clean(target: Target) -> None:
    use_client(target, lambda client: client.clean(), **{"hoodie.clean.commits.retained": "1"})


def savepoint(target: Target) -> None:
    use_client(target, lambda client: client.savepoint("somebody", "to keep"))


def start_commit(target: Target) -> None:
    use_client(target, lambda client: client.startCommit())


def capture_changes(target: Target) -> None:
    jvm: Any = target.session._jvm
    table, properties = open_table(target.session, load_table_services(target).path), jvm.java.util.Properties()
    properties.setProperty("hoodie.table.cdc.enabled", "true")
    jvm.org.apache.hudi.common.table.HoodieTableConfig.update(table.getStorage(), table.getMetaPath(), properties)


def remove_checksum(target: Target) -> None:
    file = folder_of(target) / ".hoodie" / "hoodie.properties"
    file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
    file.write_text("".join(line for line in file.read_text().splitlines(True) if "checksum" not in line))


def remove_scratch(target: Target) -> None:
    for name in (".temp", ".aux"):
        shutil.rmtree(folder_of(target) / ".hoodie" / name, ignore_errors=True)


def delete_nothing(target: Target) -> None:
    services = load_table_services(target)
    options = {**services.options, **services.own_options, **TOOLS, "hoodie.datasource.write.operation": "delete"}
    deleted = target.frame(PEOPLE, put(1, 77, "")).withColumnRenamed("_headrace_deleted", "_hoodie_is_deleted")
    deleted.write.format("hudi").options(**options).mode("append").save(services.path)


def maintain(target: Target) -> None:
    for step in target.sink.plan_maintenance(target.session, target.table, ALL):
        step.run()


def write_during(target: Target, change: Callable[[Target], None], changes: Sequence[Row]) -> HeadraceError | None:
    """Write a batch while another program changes the table, and return the batch's error."""
    with in_the_meantime(partial(change, target)) as interleave:
        return target.refusal(lambda: target.apply(interleave(target.frame(PEOPLE, *changes))))


LOG_CHANGES = [plan_compaction, compact]
COMMON_CHANGES = [clean, start_commit, remove_scratch, delete_nothing, capture_changes, remove_checksum, savepoint]


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("options", "changes"),
    [
        ({"table.type": "MERGE_ON_READ"}, [*LOG_CHANGES, plan_clustering, *COMMON_CHANGES]),
        ({"table.type": "COPY_ON_WRITE"}, [plan_clustering, *COMMON_CHANGES]),
        (PARTITIONED, [*LOG_CHANGES, cluster, clean, delete_nothing, savepoint]),
    ],
    ids=["merge on read", "copy on write", "partitioned"],
)
def test_rows_stay_correct_after_changes_by_another_writer(
    tmp_path: Path, sessions: Sessions, options: dict[str, str], changes: list[Callable[[Target], None]]
) -> None:
    target = make(tmp_path, sessions, options)
    for number, change in enumerate(changes, 2):
        change(target)
        target.write(
            PEOPLE,
            put(number, 0, f"n{number}"),
            put(number, 100 + number, "new"),
            remove(number, 99 + number, ""),
            put(0, 1, "late"),
        )
        expected = {0: f"n{number}", 1: "old", 2: "old", 3: "old", 100 + number: "new"}
        assert rows(target) == expected, change
        if number % 3 == 0:
            maintain(target)
            assert rows(target) == expected, change
    maintain(target)
    assert rows(target) == expected
    assert target.write_again(PEOPLE, put(99, 99, "not read")).skipped


@pytest.mark.nightly
def test_maintenance_by_another_program_during_batches(tmp_path: Path, sessions: Sessions) -> None:
    target = make(tmp_path, sessions, {"table.type": "MERGE_ON_READ"})
    expected = dict.fromkeys(range(4), "old")
    rejected = 0
    # A compaction ends during a batch, and another one begins in one batch and ends in the next.
    for number, change in enumerate([compact, plan_compaction, compact, clean, delete_nothing, compact], 2):
        changes = (
            put(number, number % 4, f"n{number}"),
            put(number, 100 + number, "new"),
            remove(number, 99 + number, ""),
        )
        error = write_during(target, change, changes)
        if error is not None:
            assert isinstance(error, RetriableError), change
            assert rows(target) == expected, change
            rejected += 1
            target.write(PEOPLE, *changes)
        expected.pop(99 + number, None)
        expected |= {number % 4: f"n{number}", 100 + number: "new"}
        assert rows(target) == expected, change
    assert rejected <= 1, "most batches succeed while another program maintains the table"
    maintain(target)
    assert rows(target) == expected


@pytest.mark.nightly
def test_batch_is_retriable_while_another_process_plans_a_clustering(tmp_path: Path, sessions: Sessions) -> None:
    target = make(tmp_path, sessions, PARTITIONED)
    plan_clustering(target)
    refusal = target.refusal(lambda: target.write(PEOPLE, put(2, 0, "second")))
    assert isinstance(refusal, RetriableError)
    assert "another process planned a clustering of the table" in str(refusal)
    assert rows(target) == {0: "old", 1: "old", 2: "old", 3: "old"}
    run_clustering(target)
    target.write(PEOPLE, put(2, 0, "second"))
    assert rows(target) == {0: "second", 1: "old", 2: "old", 3: "old"}


@pytest.mark.parametrize("option", ["hoodie.clustering.inline", "hoodie.clustering.async.enabled"])
def test_buckets_are_not_clustered(tmp_path: Path, option: str) -> None:
    with pytest.raises(ConfigError, match=rf"{option}: Hudi does not cluster the files of the index BUCKET"):
        HudiSink({"path": str(tmp_path), option: True}).check()
    HudiSink({"path": str(tmp_path), option: True, **PARTITIONED}).check()
