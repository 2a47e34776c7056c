"""File tables in a real Hive metastore, compared with Hudi's own sync."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.catalogs import POINTS, FakeStore, overtake
from tests.support.glue import column_types, read_table
from tests.support.s3_records import TOPIC, Orders, order

from headrace import ConfigError, HeadraceError, RetriableError
from headrace.spark.sessions import Sessions
from headrace.testing.tables import Target, put, remove
from headrace_sinks import FilesSink, HiveCatalog, HudiSink
from headrace_sinks.catalogs.hive import hive_client
from headrace_sinks.catalogs.hive.hive_client import HiveClient
from headrace_stack import Metastore
from headrace_stack.servers.server import free_port

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.dist, pytest.mark.one_spark]

ORDERS = "id int, country string, total decimal(10,2)"
WIDER = "id bigint, country string, total decimal(12,2), note string"
BY_COUNTRY = {"hoodie.datasource.write.partitionpath.field": "country"}


class Hive:
    """Reader of a metastore, with the names of the Glue helper."""

    def __init__(self, spark: SparkSession, metastore: Metastore) -> None:
        self.block = {"hive.metastore.uris": metastore.uri}
        self.client = HiveClient(spark.sparkContext, self.block)

    def sync(self, **options: Any) -> dict[str, Any]:
        return {"hive": {**self.block, **options}}

    def tables(self, database: str) -> dict[str, dict[str, Any]]:
        names = list(self.client._client.getAllTables(database))
        return {str(name): self.client.get_table(database, name) or {} for name in names}

    def places(self, database: str, table: str) -> dict[tuple[str, ...], str]:
        found = self.client.list_partitions(database, table)
        return {values: one["StorageDescriptor"]["Location"] for values, one in found.items()}


@pytest.fixture
def hive(spark: SparkSession, metastore: Metastore) -> Iterator[Hive]:
    reader = Hive(spark, metastore)
    yield reader
    reader.client.close()


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that records the first words of each request of the catalog."""
    names: list[str] = []
    translate = HiveClient._translate

    def record(self: HiveClient, action: str) -> Any:
        names.append(" ".join(action.split()[:2]))
        return translate(self, action)

    monkeypatch.setattr(HiveClient, "_translate", record)
    return names


@pytest.mark.nightly
def test_hudi_tables_equal_those_of_hudi_sync(
    spark: SparkSession, hive: Hive, metastore: Metastore, database: str, tmp_path: Path
) -> None:
    """Hudi registers the table in one database, and headrace in another. Engines must find the same definitions."""
    theirs = {"enable": "true", "mode": "hms", "database": f"{database}_hudi", "table": "shop_orders"}
    theirs |= {"metastore.uris": metastore.uri, "partition_fields": "country"}
    own = {f"hoodie.datasource.hive_sync.{key}": value for key, value in theirs.items()}
    block = {"path": str(tmp_path), "sync": hive.sync(database=database), **BY_COUNTRY, **own}
    Target(HudiSink(block), spark, name="shop.orders").write(ORDERS, put(1, 1, "de", None), put(2, 2, "at", None))
    found, known = hive.tables(database), hive.tables(f"{database}_hudi")
    assert found.keys() == known.keys() == {"shop_orders", "shop_orders_ro", "shop_orders_rt"}
    for name, table in found.items():
        for part in ("TableType", "PartitionKeys"):
            assert table[part] == known[name][part]
        one, other = table["StorageDescriptor"], known[name]["StorageDescriptor"]
        for part in ("Columns", "Location", "InputFormat", "OutputFormat"):
            assert one[part] == other[part]
        assert one["SerdeInfo"]["SerializationLibrary"] == other["SerdeInfo"]["SerializationLibrary"]
        as_ro = "hoodie.query.as.ro.table"
        assert one["SerdeInfo"]["Parameters"][as_ro] == other["SerdeInfo"]["Parameters"][as_ro]
        assert hive.places(database, name) == hive.places(f"{database}_hudi", name)
        rows = read_table(spark, table).select("id", "country").collect()
        assert sorted(map(tuple, rows)) == [(1, "de"), (2, "at")]


@pytest.mark.nightly
def test_partitions_and_columns_follow_the_table(
    spark: SparkSession, hive: Hive, database: str, tmp_path: Path, calls: list[str]
) -> None:
    index = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "1"}
    block = {"path": str(tmp_path), "table.type": "COPY_ON_WRITE", "sync": hive.sync(), **BY_COUNTRY, **index}
    target = Target(HudiSink(block), spark, name=f"{database}.orders", key=("id", "country"))
    target.write(ORDERS, put(1, 1, "de", None))
    calls.clear()
    target.write(ORDERS, put(2, 1, "de", None), remove(3, 2, "de", None))
    assert calls == []
    target.write(ORDERS, put(4, 3, "fr", None))
    assert calls == ["connect to", "add partitions"]
    # An addition of another program stays.
    (table,) = hive.tables(database).values()
    table["Parameters"]["owner.team"] = "museum"
    hive.client.update_table(database, table, None)
    target.write(WIDER, put(5, 4, "fr", None, "x"))
    (table,) = hive.tables(database).values()
    changed = {"id": "bigint", "total": "decimal(12,2)", "note": "string"}
    assert changed.items() <= column_types(table).items()
    assert table["Parameters"]["owner.team"] == "museum"
    found = hive.client.list_partitions(database, "orders")
    assert found.keys() == {("de",), ("fr",)}
    assert all(changed.items() <= column_types(one).items() for one in found.values())


def test_files_and_objects(spark: SparkSession, sessions: Sessions, hive: Hive, database: str, tmp_path: Path) -> None:
    sync = hive.sync(database=database)
    target = Target(FilesSink({"path": str(tmp_path / "files"), "sync": sync}), spark, name="people")
    target.write("id int, name string", put(1, 1, "Arp"))
    target.write("id int, name string, born int", put(2, 2, "Höch", 1889))
    people = hive.tables(database)["people"]
    assert column_types(people) == {"id": "int", "name": "string", "born": "int"}
    assert len(hive.places(database, "people")) == 2
    rows = read_table(spark, people).select("id", "name", "born").collect()
    assert sorted(map(tuple, rows)) == [(1, "Arp", None), (2, "Höch", 1889)]
    orders = Orders(tmp_path, sessions.of("s3"), {"flush.size": 2, "sync": sync}, "id int, name string", "checkpoint")
    orders.write(order(0), order(1), order(0, partition=1), order(1, partition=1))
    root = f"file:{orders.folder}/topics/{TOPIC}"
    assert hive.places(database, "orders") == {(n,): f"{root}/partition={n}" for n in ("0", "1")}


@pytest.mark.parametrize("point", POINTS)
def test_slower_writer_reverts_no_change(
    hive: Hive, database: str, tmp_path: Path, point: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hive accepts an update that is based on an outdated entry, so the writer checks it afterward."""
    store, name = FakeStore(tmp_path.as_uri().replace("///", "/")), f"{database}.t"
    slow, quick = (HiveCatalog(hive.block) for _ in range(2))
    store.register(slow, name)

    written = store.commit("slow")
    with overtake(
        monkeypatch, HiveClient, store, lambda: store.register(quick, name, store.commit("quick")), point=point
    ):
        store.register(slow, name, written)
    assert column_types(hive.tables(database)["t"]).keys() == {"id", "slow", "quick"}
    assert hive.places(database, "t") == store.partitions


def error_of(catalog: HiveCatalog, store: FakeStore, name: str) -> HeadraceError:
    with pytest.raises(HeadraceError) as caught:
        store.register(catalog, name)
    return caught.value


def test_errors_state_a_fix(hive: Hive, database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, catalog = FakeStore(str(tmp_path / "one")), HiveCatalog(hive.block)
    store.register(catalog, f"{database}.people")
    error = error_of(catalog, FakeStore(str(tmp_path / "two")), f"{database}.people")
    assert isinstance(error, ConfigError)
    assert f"the table in the metastore is at file:{tmp_path}/one, and this table is at {tmp_path}/two" in str(error)
    assert "or drop the table in the metastore" in str(error)
    error = error_of(HiveCatalog({**hive.block, "auto.create.database": False}), store, "absent.people")
    assert isinstance(error, ConfigError)
    assert "Hive metastore: no such database: absent" in str(error)
    away = HiveCatalog(
        {"hive.metastore.uris": f"thrift://127.0.0.1:{free_port()}", "hive.metastore.connect.retries": 1}
    )
    error = error_of(away, store, f"{database}.people")
    assert isinstance(error, RetriableError)
    assert "a required server is unreachable: " in str(error)
    assert "no metastore is configured\n  fix: set `hive.metastore.uris: thrift://HOST:9083`" in str(
        error_of(HiveCatalog(), store, f"{database}.people")
    )
    monkeypatch.setattr(hive_client, "_CONF_CLASS", "org.apache.hadoop.hive.conf.NoSuchConf")
    assert "this Spark has no client of the Hive metastore" in str(error_of(catalog, store, f"{database}.new"))


def test_rejected_type_change_names_the_setting(spark: SparkSession, hive: Hive, database: str, tmp_path: Path) -> None:
    block = {"path": str(tmp_path), "format": "parquet", "sync": hive.sync(database=database)}
    target = Target(FilesSink(block), spark, name="people")
    target.write("id int, place struct<city: string>", put(1, 1, ("Köln",)))
    with pytest.raises(ConfigError, match=r"`hive\.metastore\.disallow\.incompatible\.col\.type\.changes: false`"):
        target.write("id int, place struct<city: string, zip: string>", put(2, 2, ("Ulm", "89073")))


@pytest.mark.parametrize("uris", ["metastore:9083", "thrift://", "thrift://a:1,b:2"])
def test_addresses_need_a_scheme(uris: str) -> None:
    with pytest.raises(ConfigError, match=r"hive\.metastore\.uris"):
        HiveCatalog({"hive.metastore.uris": uris})
