"""File tables in the Glue catalog on moto, compared with Hudi's sync to a real Hive metastore.

Athena is not available to tests. Spark tests the table definitions that it reads.
"""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.bronze import Bronze
from tests.support.glue import Glue, Refusing, column_types, read_table
from tests.support.pipelines import COLUMNS, TABLE, TOPIC, pipeline, rows, sink_block
from tests.support.tiers import nightly_after

from headrace import ConfigError, Pipeline
from headrace.spark.sessions import Sessions
from headrace.testing.tables import VALUES, Target, plain, put, remove
from headrace_sinks import FilesSink, GlueCatalog, HudiSink
from headrace_stack import Metastore

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.one_spark, pytest.mark.usefixtures("aws_credentials")]

ORDERS = "id int, country string, total decimal(10,2)"
BY_COUNTRY = {"hoodie.datasource.write.partitionpath.field": "country"}


def sync(glue: Glue, **options: Any) -> dict[str, Any]:
    return {"glue": {"endpoint": glue.endpoint_url, **options}}


def plain_rows(frame: DataFrame) -> list[dict[str, Any]]:
    found = [{name: plain(value) for name, value in row.asDict().items()} for row in frame.collect()]
    return sorted(found, key=lambda row: row["id"])


# Hudi


@pytest.mark.nightly
def test_partitioned_hudi_table_is_three_glue_tables(
    spark: SparkSession, glue: Glue, database: str, tmp_path: Path, glue_operations: list[str]
) -> None:
    # With the country in the key, a row stays in its partition, and Hudi finds it without a global index.
    index = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "1"}
    sink = HudiSink({"path": str(tmp_path), "sync": sync(glue, database=database), **BY_COUNTRY, **index})
    target = Target(sink, spark, name="shop.orders", key=("id", "country"))
    target.write(ORDERS, put(1, 1, "de", None), put(2, 2, "at", None))
    found = glue.tables(database)
    assert found.keys() == {"shop_orders", "shop_orders_ro", "shop_orders_rt"}
    for name, table in found.items():
        assert column_types(table)["total"] == "decimal(10,2)"
        assert [key["Name"] for key in table["PartitionKeys"]] == ["country"]
        root = f"file:{tmp_path}/shop/orders"
        assert glue.places(database, name) == {("de",): f"{root}/de", ("at",): f"{root}/at"}
        assert plain_rows(read_table(spark, table).select("id", "country")) == [
            {"id": 1, "country": "de"},
            {"id": 2, "country": "at"},
        ]

    # A batch without a catalog change sends no request.
    glue_operations.clear()
    target.write(ORDERS, put(3, 1, "de", None), remove(4, 2, "at", None))
    assert glue_operations == []
    # A new partition takes one request for each of the three tables, and adds no table version.
    target.write(ORDERS, put(5, 3, "fr", None))
    assert glue_operations == ["batch_create_partition"] * 3
    assert {glue.count_versions(database, name) for name in found} == {1}
    assert glue.partitions(database, "shop_orders_ro").keys() == {("de",), ("at",), ("fr",)}
    # A new run only reads the tables and partitions.
    glue_operations.clear()
    assert target.write_again(ORDERS, put(5, 3, "fr", None)).skipped
    assert glue_operations == ["get_table", "get_partitions"] * 3

    # New and wider columns add one table version. Partitions change too, because Athena compares their types.
    target.write("id bigint, country string, total decimal(12,2), note string", put(6, 4, "fr", None, "x"))
    for name in found:
        assert glue.count_versions(database, name) == 2
        changed = {"id": "bigint", "total": "decimal(12,2)", "note": "string"}
        assert changed.items() <= column_types(glue.tables(database)[name]).items()
        for one in glue.partitions(database, name).values():
            assert changed.items() <= column_types(one).items()


@pytest.mark.nightly
def test_tables_equal_those_of_hudi_sync(spark: SparkSession, glue: Glue, database: str, tmp_path: Path) -> None:
    """Hudi registers in a real Hive metastore, and headrace in Glue. The definitions that engines read must be equal."""
    kinds = {"MERGE_ON_READ": BY_COUNTRY, "COPY_ON_WRITE": {}}
    with Metastore() as metastore:
        for kind, options in kinds.items():
            hive = {"enable": "true", "mode": "hms", "database": "hive", "metastore.uris": metastore.uri}
            hive |= {"table": kind.lower()} | ({"partition_fields": "country"} if options else {})
            own = {f"hoodie.datasource.hive_sync.{key}": value for key, value in hive.items()}
            block = {"path": str(tmp_path), "table.type": kind, "sync": sync(glue, database=database), **own, **options}
            Target(HudiSink(block), spark, name=kind.lower()).write(ORDERS, put(1, 1, "de", None))
        known = read_metastore(spark, metastore, "hive")
    found = glue.tables(database)
    assert found.keys() == known.keys()
    for name, table in found.items():
        descriptor, hive_table = table["StorageDescriptor"], known[name]
        assert column_types(table) == hive_table["columns"]
        assert {key["Name"]: key["Type"] for key in table["PartitionKeys"]} == hive_table["partition_keys"]
        assert [
            descriptor["InputFormat"],
            descriptor["OutputFormat"],
            descriptor["SerdeInfo"]["SerializationLibrary"],
        ] == (hive_table["classes"])
        assert descriptor["Location"] == hive_table["location"]
        assert descriptor["SerdeInfo"]["Parameters"]["hoodie.query.as.ro.table"] == hive_table["as_ro"]
        own_properties = {k: v for k, v in table["Parameters"].items() if k.startswith("spark.")}
        hives = {k: v for k, v in hive_table["properties"].items() if k.startswith("spark.sql.sources")}
        assert without_nullability(own_properties) == without_nullability(hives)


def without_nullability(properties: dict[str, str]) -> dict[str, str]:
    return {key: value.replace('"nullable":false', '"nullable":true') for key, value in properties.items()}


def read_metastore(spark: SparkSession, metastore: Metastore, database: str) -> dict[str, dict[str, Any]]:
    """Read the tables of a database with Hive's client."""
    jvm: Any = spark._jvm
    conf = jvm.org.apache.hadoop.hive.conf.HiveConf()
    conf.set("hive.metastore.uris", metastore.uri)
    hive = jvm.org.apache.hadoop.hive.metastore.HiveMetaStoreClient(conf)
    found = {}
    for name in hive.getAllTables(database):
        table = hive.getTable(database, name)
        sd = table.getSd()
        found[str(name)] = {
            "columns": {c.getName(): c.getType() for c in sd.getCols()},
            "partition_keys": {c.getName(): c.getType() for c in table.getPartitionKeys()},
            "classes": [sd.getInputFormat(), sd.getOutputFormat(), sd.getSerdeInfo().getSerializationLib()],
            "location": sd.getLocation(),
            "as_ro": dict(sd.getSerdeInfo().getParameters()).get("hoodie.query.as.ro.table"),
            "properties": dict(table.getParameters()),
        }
    hive.close()
    return found


@pytest.mark.parametrize(
    ("options", "values"),
    nightly_after(
        1,
        [
            ({}, ("2024-02-29", "__HIVE_DEFAULT_PARTITION__")),
            ({"hive_style_partitioning": "true", "partitionpath.urlencode": "true"}, ("2024-02-29", "a/b c")),
        ],
    ),
)
def test_values_of_partitions(
    spark: SparkSession, glue: Glue, database: str, tmp_path: Path, options: dict[str, str], values: tuple[str, ...]
) -> None:
    write = {"partitionpath.field": "day,country", **options}
    own = {f"hoodie.datasource.write.{key}": value for key, value in write.items()}
    block = {"path": str(tmp_path), "table.type": "COPY_ON_WRITE", "sync": sync(glue, database=database), **own}
    country = None if values[1].startswith("__") else values[1]
    row = put(1, 1, date.fromisoformat(values[0]), country)
    Target(HudiSink(block), spark, name="shop").write("id int, day date, country string", row)
    (found,) = glue.places(database, "shop").items()
    assert found[0] == values
    assert list(Path(found[1].removeprefix("file:")).glob("*.parquet"))
    keys = glue.tables(database)["shop"]["PartitionKeys"]
    assert [(key["Name"], key["Type"]) for key in keys] == [("day", "date"), ("country", "string")]


def test_partition_of_a_text_column_keeps_its_text(
    spark: SparkSession, glue: Glue, database: str, tmp_path: Path
) -> None:
    own = {"hoodie.datasource.write.partitionpath.field": "day"}
    block = {"path": str(tmp_path), "table.type": "COPY_ON_WRITE", "sync": sync(glue, database=database), **own}
    Target(HudiSink(block), spark, name="shop").write("id int, day string", put(1, 1, "05/01/2026"))
    assert glue.places(database, "shop").keys() == {("05/01/2026",)}


# Files


@pytest.mark.nightly
@pytest.mark.parametrize("file_format", ["json", "avro", "parquet"])
def test_files_of_all_types(
    spark: SparkSession, glue: Glue, database: str, tmp_path: Path, file_format: str, glue_operations: list[str]
) -> None:
    sink = FilesSink({"path": str(tmp_path), "format": file_format, "sync": sync(glue)})
    spark = Sessions(spark, sink.sql_conf).of("files")
    target = Target(sink, spark, name=f"{database}.things")
    schema = ", ".join(f"{name} {kind}" for name, (kind, *_) in VALUES.items())
    rows = [put(at, *(values[at] for values in VALUES.values())) for at in (1, 2, 3)]
    target.write(schema, *rows)
    # Another batch with the same columns adds only a partition.
    glue_operations.clear()
    target.write(schema, *rows)
    assert glue_operations == ["batch_create_partition"]
    target.write(f"{schema}, later string", put(9, *(values[1] for values in VALUES.values()), "x"))
    (table,) = glue.tables(database).values()
    assert glue.count_versions(database, "things") == 2
    types = column_types(table)
    small = "smallint" if file_format != "avro" else "int"
    expected = {name: kind.replace(": ", ":").replace(", ", ",") for name, (kind, *_) in VALUES.items()}
    assert types == {**expected, "small": small, "later": "string"}
    assert table["Parameters"]["classification"] == file_format
    assert [key["Name"] for key in table["PartitionKeys"]] == ["_headrace_batch"]
    found = glue.partitions(database, "things")
    assert len(found) == 3
    for values, one in found.items():
        assert one["StorageDescriptor"]["Location"] == f"file:{tmp_path}/{database}/things/_headrace_batch={values[0]}"
        assert column_types(one) == types
    business = [*VALUES, "later"]
    assert plain_rows(read_table(spark, table).select(business)) == plain_rows(target.read().select(business))
    if file_format == "avro":  # as in Hive: with the reader schema, older files have nulls
        literal = table["StorageDescriptor"]["SerdeInfo"]["Parameters"]["avro.schema.literal"]
        frame = spark.read.format("avro").option("avroSchema", literal).load(table["StorageDescriptor"]["Location"])
        assert sorted(row["later"] or "" for row in frame.select("later").collect()) == [""] * 6 + ["x"]


@pytest.mark.nightly
def test_dropped_table_and_recreated_table(spark: SparkSession, glue: Glue, database: str, tmp_path: Path) -> None:
    sink = FilesSink({"path": str(tmp_path / "lake"), "sync": sync(glue, database=database)})
    target = Target(sink, spark, name="people")
    target.write("id int, name string", put(1, 1, "Arp"))
    glue.client().delete_table(DatabaseName=database, Name="people")
    target.write("id int, name string", put(2, 2, "Höch"))
    assert len(glue.partitions(database, "people")) == 2
    # Another user adds descriptions and a partition.
    table = glue.tables(database)["people"]
    foreign = glue.partitions(database, "people").popitem()[1]["StorageDescriptor"]
    described = {key: table[key] for key in ("Name", "StorageDescriptor", "PartitionKeys", "Parameters", "TableType")}
    described["StorageDescriptor"]["Columns"][1]["Comment"] = "as on the plate"
    described |= {"Description": "artists", "Parameters": {**table["Parameters"], "owner.team": "museum"}}
    glue.client().update_table(DatabaseName=database, TableInput=described)
    elsewhere = {"Values": ["old"], "StorageDescriptor": {**foreign, "Location": "s3://archive/people"}}
    glue.client().create_partition(DatabaseName=database, TableName="people", PartitionInput=elsewhere)
    # The files are removed, and a new checkpoint starts.
    (tmp_path / "lake").rename(tmp_path / "away")
    Target(
        FilesSink({"path": str(tmp_path / "lake"), "sync": sync(glue, database=database)}), spark, name="people"
    ).write("name string, id bigint", put(1, "Arp", 1))
    table = glue.tables(database)["people"]
    assert column_types(table) == {"name": "string", "id": "bigint"}
    assert table["Description"] == "artists"
    assert table["Parameters"]["owner.team"] == "museum"
    assert table["StorageDescriptor"]["Columns"][0]["Comment"] == "as on the plate"
    assert len(glue.partitions(database, "people").keys() - {("old",)}) == 1
    assert ("old",) in glue.partitions(database, "people")


# Names


def test_names_that_are_rejected(spark: SparkSession, glue: Glue, database: str, tmp_path: Path) -> None:
    def error_of(name: str, schema: str, *values: Any, **options: str) -> str:
        with pytest.raises(ConfigError) as caught:
            write(name, schema, *values, **options)
        return str(caught.value)

    def write(name: str, schema: str, *values: Any, **options: str) -> None:
        sink = FilesSink({"path": str(tmp_path), "sync": sync(glue, **options)})
        Target(sink, spark, name=name).write(schema, put(1, *values))

    write("shop.or-ders", "id int, `Šipka-1` int, `a.b` struct<`Two Words`: int>", 1, 2, (3,), database=database)
    found = column_types(glue.tables(database)["shop_or_ders"])
    assert found == {"id": "int", "šipka-1": "int", "a.b": "struct<Two Words:int>"}
    assert (
        error_of("shop.or_ders", "id int", 1, database=database)
        == f"AWS Glue, table {database}.shop_or_ders: the table in Glue is at file:{tmp_path}/shop/or-ders, and this table is at "
        f"file:{tmp_path}/shop/or_ders\n  fix: set another `database` or `target:`, or drop the table in Glue if it is obsolete"
    )
    assert "the table 'orders' has no database\n  fix: set `database` under `glue:`" in error_of("orders", "id int", 1)
    assert "cannot have the column 'a,b'" in error_of("shop.commas", "id int, `a,b` int", 1, 2, database=database)
    assert "the field 'a-b' of the column 's'" in error_of(
        "shop.dashes", "id int, s array<struct<`a-b`: int>>", 1, [(1,)], database=database
    )
    missing = {"database": f"no_{database}", "auto.create.database": "false"}
    assert f"AWS Glue: no such database: no_{database}\n  fix: create it" in error_of(
        "shop.away", "id int", 1, **missing
    )
    with pytest.raises(ConfigError, match="no such database"):
        GlueCatalog({"endpoint": glue.endpoint_url, **missing}).check(spark)


def test_missing_settings(spark: SparkSession, monkeypatch: pytest.MonkeyPatch, refusal_server: Refusing) -> None:
    refusal_server.refuse("AccessDeniedException", "no")
    with pytest.raises(ConfigError, match="access denied"):
        GlueCatalog({"endpoint": refusal_server.endpoint_url, "database": "lake"}).check(spark)
    monkeypatch.delenv("AWS_REGION")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nowhere")
    with pytest.raises(ConfigError, match=r"AWS glue: no region is set\n  fix: set AWS_REGION"):
        GlueCatalog().check()
    with pytest.raises(ConfigError, match="unknown profile 'nobody'"):
        GlueCatalog(region="eu-west-1", profile="nobody").check()
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nowhere")
    with pytest.raises(ConfigError, match="no AWS credentials found"):
        GlueCatalog(region="eu-west-1", database="lake").check(spark)


@pytest.mark.nightly
def test_rejected_registration_repeats_without_a_second_write(
    spark: SparkSession, glue: Glue, refusal_server: Refusing, tmp_path: Path, database: str
) -> None:
    bronze = Bronze(tmp_path / "bronze")
    artists = bronze.topic(TOPIC, key="artist_id", columns=COLUMNS)
    artists.insert({"artist_id": 1, "name": "Arp", "nationality": "German"})
    bronze.flush()
    refusal_server.refuse("AccessDeniedException", "User: me is not authorized to perform: glue:GetTable")

    def run(**options: str) -> Pipeline:
        result = pipeline(tmp_path, sinks=[sink_block("hudi", tmp_path, sync=sync(glue, **options))])
        result.run(spark=spark)
        return result

    with pytest.raises(ConfigError, match=rf"table {TABLE}: access denied: .*GetTable"):
        run(endpoint=refusal_server.endpoint_url)
    result = run(database=database)
    assert glue.tables(database).keys() == {"moma_artists", "moma_artists_ro", "moma_artists_rt"}
    assert rows(result, spark) == [{"artist_id": 1, "name": "Arp", "nationality": "German"}]
