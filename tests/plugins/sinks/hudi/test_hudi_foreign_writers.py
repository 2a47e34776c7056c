"""Hudi tables that somebody else changes by hand, or maintains with tools of Hudi's own: rows stay right, or an error says it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.hudi import services_of

from headrace.errors import ConfigError, RetriableError
from headrace.sdk.maintenance import MaintenancePolicy
from headrace.spark.sessions import Sessions
from headrace.testing.tables import Target, put, remove
from headrace_sinks.hudi import HudiSink
from headrace_sinks.hudi.hudi_timeline import open_table

pytestmark = [pytest.mark.spark, pytest.mark.one_spark]

PEOPLE = "id int, name string"
ALL = MaintenancePolicy(history_seconds=0, files=2)
#: What headrace leaves out, and Hudi's own tools do not.
TOOLS = {"hoodie.metadata.enable": "true", "hoodie.datasource.write.recordkey.field": "id"}
PARTITIONED = {"hoodie.datasource.write.partitionpath.field": "name"}


def make(folder: Path, clones: Sessions, options: dict[str, str]) -> Target:
    sink = HudiSink({"path": str(folder), "hoodie.bucket.index.num.buckets": 1, **options})
    target = Target(sink, clones.of("one"))
    target.write(PEOPLE, *[put(1, number, "old") for number in range(4)])
    return target


def folder_of(target: Target) -> Path:
    return Path(services_of(target).path.removeprefix("file:"))


def rows(target: Target) -> dict[int, str]:
    """As headrace reads them, and as Spark does that knows nothing of it."""
    found = {row["id"]: row["name"] for row in target.rows()}
    by_default = target.session.read.format("hudi").load(services_of(target).path).select("id", "name").collect()
    assert sorted(map(tuple, by_default)) == sorted(found.items())
    return found


def client_of(target: Target, **options: str) -> Any:
    """A client of Hudi's as its own tools make one."""
    jvm: Any = target.session._jvm
    services, table = services_of(target), open_table(target.session, services_of(target).path)
    schema = str(jvm.org.apache.hudi.common.table.TableSchemaResolver(table).getTableSchema().toString())
    merged = {**services.options, **services.own_options, **TOOLS, **options}
    name, java = merged["hoodie.table.name"], target.session.sparkContext._jsc
    return jvm.org.apache.hudi.DataSourceUtils.createHoodieClient(java, schema, services.path, name, merged)


def use_client(target: Target, use: Callable[[Any], object], **options: str) -> None:
    client = client_of(target, **options)
    try:
        use(client)
    finally:
        client.close()


def timeline_of(target: Target) -> Any:
    return open_table(target.session, services_of(target).path).getActiveTimeline()


def list_instants(timeline: Any) -> list[str]:
    return [str(instant.requestedTime()) for instant in timeline.getInstants()]


def nothing(target: Target) -> Any:
    jvm: Any = target.session._jvm
    return jvm.org.apache.hudi.common.util.Option.empty()


def plan_compaction(target: Target) -> None:
    options = {"hoodie.compact.inline.max.delta.commits": "1"}
    use_client(target, lambda client: client.scheduleCompaction(nothing(target)), **options)


def compact(target: Target) -> None:
    plan_compaction(target)
    planned = list_instants(timeline_of(target).filterPendingCompactionTimeline())
    use_client(target, lambda client: [client.compact(instant, True) for instant in planned])


def plan_clustering(target: Target) -> None:
    use_client(target, lambda client: client.scheduleClustering(nothing(target)))


def cluster(target: Target) -> None:
    plan_clustering(target)
    do_clustering(target)


def do_clustering(target: Target) -> None:
    planned = list_instants(timeline_of(target).filterPendingClusteringTimeline())
    use_client(target, lambda client: [client.cluster(instant, True) for instant in planned])


def clean(target: Target) -> None:
    use_client(target, lambda client: client.clean(), **{"hoodie.clean.commits.retained": "1"})


def savepoint(target: Target) -> None:
    use_client(target, lambda client: client.savepoint("somebody", "to keep"))


def begin_a_commit(target: Target) -> None:
    use_client(target, lambda client: client.startCommit())


def capture_changes(target: Target) -> None:
    jvm: Any = target.session._jvm
    table, properties = open_table(target.session, services_of(target).path), jvm.java.util.Properties()
    properties.setProperty("hoodie.table.cdc.enabled", "true")
    jvm.org.apache.hudi.common.table.HoodieTableConfig.update(table.getStorage(), table.getMetaPath(), properties)


def forget_checksum(target: Target) -> None:
    file = folder_of(target) / ".hoodie" / "hoodie.properties"
    file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
    file.write_text("".join(line for line in file.read_text().splitlines(True) if "checksum" not in line))


def remove_scratch(target: Target) -> None:
    for name in (".temp", ".aux"):
        shutil.rmtree(folder_of(target) / ".hoodie" / name, ignore_errors=True)


def delete_nothing(target: Target) -> None:
    services = services_of(target)
    options = {**services.options, **services.own_options, **TOOLS, "hoodie.datasource.write.operation": "delete"}
    gone = target.frame(PEOPLE, put(1, 77, "")).withColumnRenamed("_headrace_deleted", "_hoodie_is_deleted")
    gone.write.format("hudi").options(**options).mode("append").save(services.path)


def maintain(target: Target) -> None:
    for step in target.sink.plan_maintenance(target.session, target.table, ALL):
        step.run()


LOGS = [plan_compaction, compact]
ANY = [clean, begin_a_commit, remove_scratch, delete_nothing, capture_changes, forget_checksum, savepoint]


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("options", "changes"),
    [
        ({"table.type": "MERGE_ON_READ"}, [*LOGS, plan_clustering, *ANY]),
        ({"table.type": "COPY_ON_WRITE"}, [plan_clustering, *ANY]),
        (PARTITIONED, [*LOGS, cluster, clean, delete_nothing, savepoint]),
    ],
    ids=["merge on read", "copy on write", "partitioned"],
)
def test_what_somebody_changes_leaves_the_rows_right(
    tmp_path: Path, clones: Sessions, options: dict[str, str], changes: list[Callable[[Target], None]]
) -> None:
    target = make(tmp_path, clones, options)
    for at, change in enumerate(changes, 2):
        change(target)
        target.write(PEOPLE, put(at, 0, f"n{at}"), put(at, 100 + at, "new"), remove(at, 99 + at, ""), put(0, 1, "late"))
        expected = {0: f"n{at}", 1: "old", 2: "old", 3: "old", 100 + at: "new"}
        assert rows(target) == expected, change
        if at % 3 == 0:
            maintain(target)
            assert rows(target) == expected, change
    maintain(target)
    assert rows(target) == expected
    assert target.write_again(PEOPLE, put(99, 99, "not read")).skipped


@pytest.mark.nightly
def test_a_batch_waits_for_a_clustering_that_somebody_planned_and_says_so(tmp_path: Path, clones: Sessions) -> None:
    target = make(tmp_path, clones, PARTITIONED)
    plan_clustering(target)
    refusal = target.refusal(lambda: target.write(PEOPLE, put(2, 0, "second")))
    assert isinstance(refusal, RetriableError)
    assert "another process planned a clustering of the table" in str(refusal)
    assert rows(target) == {0: "old", 1: "old", 2: "old", 3: "old"}
    do_clustering(target)
    target.write(PEOPLE, put(2, 0, "second"))
    assert rows(target) == {0: "second", 1: "old", 2: "old", 3: "old"}


@pytest.mark.parametrize("option", ["hoodie.clustering.inline", "hoodie.clustering.async.enabled"])
def test_buckets_are_not_clustered(tmp_path: Path, option: str) -> None:
    with pytest.raises(ConfigError, match=rf"{option}: Hudi does not cluster the files of the index BUCKET"):
        HudiSink({"path": str(tmp_path), option: True}).check()
    HudiSink({"path": str(tmp_path), option: True, **PARTITIONED}).check()
