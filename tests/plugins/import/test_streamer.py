"""Jobs of Hudi Streamer as pipelines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner
from tests.support.dist import ROOT

from headrace import ConfigError
from headrace.cli.main import cli
from headrace_import.import_report import Kind

SEED = ROOT / "tests/data/seed_configs"
JOBS = sorted(SEED.glob("deltastreamer*.properties"))
VARIABLE = "${env:HOODIE_STREAMER_SCHEMAPROVIDER_REGISTRY_URL}"
COMMAND = r"""#!/bin/sh
# a comment
spark-submit --master yarn --conf spark.executor.memory=4g --conf spark.serializer=org.apache.spark.serializer.KryoSerializer \
  --class org.apache.hudi.utilities.streamer.HoodieStreamer s3://jars/hudi-utilities-bundle.jar \
  --props orders.properties --source-class org.apache.hudi.utilities.sources.debezium.PostgresDebeziumSource \
  --payload-class org.apache.hudi.common.model.debezium.PostgresDebeziumAvroPayload --source-ordering-field _event_lsn \
  --op UPSERT --table-type COPY_ON_WRITE --target-base-path s3://lake/silver/orders --target-table orders \
  --continuous --min-sync-interval-seconds 60 --enable-sync --sync-tool-classes org.apache.hudi.aws.sync.AwsGlueCatalogSyncTool \
  --hoodie-conf hoodie.datasource.hive_sync.database=shop --transformer-class com.acme.Mask --mystery 1
"""
PROPERTIES = """
bootstrap.servers=broker:9092
auto.offset.reset=earliest
sasl.jaas.config=hunter2
hoodie.streamer.source.kafka.topic=shop.public.orders
hoodie.streamer.kafka.source.maxEvents=500000
hoodie.streamer.schemaprovider.registry.url=http://registry:8081/subjects/shop.public.orders-value/versions/latest
hoodie.datasource.write.recordkey.field=id
hoodie.datasource.write.partitionpath.field=country
hoodie.datasource.write.precombine.field=_event_lsn
hoodie.index.type=BLOOM
hoodie.streamer.source.kafka.topik=x
"""


@pytest.mark.parametrize("file", JOBS, ids=lambda path: path.stem)
def test_each_published_job_becomes_a_valid_pipeline(file: Path, importer: Any) -> None:
    result = importer.run(file)
    importer.check(result)
    assert "unknown options" not in str(result.report)


def test_jobs_become_tables_with_their_own_options(importer: Any) -> None:
    result = importer.run(
        *(SEED / f"deltastreamer_{name}_file_based_schema.properties" for name in ("artists", "artworks"))
    )
    importer.check(result)
    pipeline = yaml.safe_load(result.pipeline)
    assert pipeline["source"] == {"files": {"path": "s3://<your_data_lake_bucket>/topics/", "format": "avro"}}
    artists, artworks = pipeline["tables"]
    assert {key: artists[key] for key in ("source", "target", "key")} == {
        "source": "moma.public.artists",
        "target": "moma.artists",
        "key": ["artist_id"],
    }
    assert artists["sink"]["hudi"]["hoodie.datasource.write.partitionpath.field"] == "nationality"
    assert artworks["sink"]["hudi"]["hoodie.datasource.write.partitionpath.field"] == "classification"
    assert artists["sink"]["hudi"]["hoodie.upsert.shuffle.parallelism"] == "2"  # of the included file


def test_command_line_and_properties_become_one_table(
    importer: Any, tmp_path: Path, monkeypatch: Any, find_keys: Any
) -> None:
    monkeypatch.setenv("SASL_JAAS_CONFIG", "secret")
    (tmp_path / "orders.properties").write_text(PROPERTIES, encoding="utf-8")
    (tmp_path / "run.sh").write_text(COMMAND, encoding="utf-8")
    result = importer.run(tmp_path / "run.sh", tmp_path / "orders.properties")
    importer.check(result)
    assert yaml.safe_load(result.pipeline) == {
        "name": "run",
        "source": {
            "kafka": {
                "bootstrap.servers": "broker:9092",
                "kafka.sasl.jaas.config": "${env:SASL_JAAS_CONFIG}",
                "maxOffsetsPerTrigger": 500000,
                "startingOffsets": "earliest",
                "subscribe": ["shop.public.orders"],
            },
            "value": {"avro": {"registry": "http://registry:8081"}},
        },
        "tables": [
            {
                "source": "shop.public.orders",
                "target": "shop.orders",
                "key": ["id"],
                "sink": {
                    "hudi": {
                        "table.type": "COPY_ON_WRITE",
                        "mode": "upsert",
                        "hoodie.datasource.write.partitionpath.field": "country",
                    }
                },
            }
        ],
        "transforms": [{"unwrap": {}}],
        "sink": {"hudi": {"path": "s3://lake/silver/headrace", "sync": {"glue": {"database": "shop"}}}},
        "min.sync.interval": "60 seconds",
        "spark": {"spark.executor.memory": "4g"},
        "checkpoint": "checkpoints/run",
    }
    assert find_keys(result, Kind.UNKNOWN) == {"--mystery", "hoodie.streamer.source.kafka.topik"}
    assert find_keys(result, Kind.NOT_IMPORTED) == {"--transformer-class", "hoodie.index.type"}
    named = result.pipeline + str(result.report)
    keys = [line.partition("=")[0] for line in PROPERTIES.split()]
    keys += [word for word in COMMAND.split() if word.startswith("--") and word not in ("--conf", "--hoodie-conf")]
    assert [key for key in keys if key not in named] == []
    assert "hunter2" not in named


SCRIPT = r"""#!/bin/sh
# it's the nightly job
hadoop fs -rm --op BULK_INSERT /tmp/x && spark-submit --class HoodieStreamer --supervise hudi.jar --mystery --op INSERT \
  --retry-on-source-failures --target-base-path ${BASE}/orders --target-table orders
  --hoodie-conf hoodie.streamer.source.kafka.topic=shop.$TOPIC --hoodie-conf bootstrap.servers=b:9092 | tee --op x
  --source-class org.apache.hudi.utilities.sources.JsonKafkaSource
"""


def test_only_the_command_of_hudi_streamer_is_read(importer: Any, tmp_path: Path, find_keys: Any) -> None:
    file = tmp_path / "run.sh"
    file.write_text(SCRIPT.replace(" | tee --op x", ""), encoding="utf-8")
    result = importer.run(file)
    pipeline = yaml.safe_load(result.pipeline)
    assert pipeline["source"]["kafka"]["subscribe"] == ["shop.${env:TOPIC}"]
    assert pipeline["sink"]["hudi"] == {"path": "${env:BASE}/headrace"}
    assert pipeline["tables"][0]["sink"]["hudi"]["mode"] == "append"
    assert find_keys(result, Kind.UNKNOWN) == {"--mystery"}
    file.write_text(SCRIPT, encoding="utf-8")
    assert "JsonKafkaSource" not in importer.run(file).pipeline
    file.write_text(SCRIPT + SCRIPT, encoding="utf-8")
    with pytest.raises(ConfigError, match="2 commands of Hudi Streamer"):
        importer.run(file)


def test_program_and_jar_may_be_variables(importer: Any, tmp_path: Path) -> None:
    file = tmp_path / "run.sh"
    text = EVENTS.replace("spark-submit", "$SPARK_HOME/bin/spark-submit").replace("hudi.jar", '"$HUDI_JAR"')
    file.write_text(text + " --op $OP\n", encoding="utf-8")
    assert yaml.safe_load(importer.run(file).pipeline)["sink"]["hudi"] == {"path": "/lake/headrace"}


EVENTS = (
    "spark-submit --class HoodieStreamer hudi.jar --source-class org.apache.hudi.utilities.sources.JsonKafkaSource"
    " --target-base-path /lake/ev --target-table ev --hoodie-conf hoodie.streamer.source.kafka.topic=events"
    " --hoodie-conf hoodie.datasource.write.recordkey.field=id --hoodie-conf bootstrap.servers=b:9092"
)


@pytest.mark.parametrize("arguments", ["--op UPSERT", "--op INSERT --filter-dupes"])
def test_order_and_duplicates_of_records_without_a_log_position_are_to_check(
    arguments: str, importer: Any, tmp_path: Path, find_keys: Any
) -> None:
    options = {"--source-ordering-field", "--payload-class"} | ({"--filter-dupes"} if "dupes" in arguments else set())
    command = f"{EVENTS} {arguments} --source-ordering-field ts --payload-class DefaultHoodieRecordPayload"
    (tmp_path / "run.sh").write_text(command, encoding="utf-8")
    result = importer.run(tmp_path / "run.sh")
    importer.check(result)
    assert find_keys(result, Kind.TO_DO) == options
    (tmp_path / "run.sh").write_text(command.replace("JsonKafka", "debezium.PostgresDebezium"), encoding="utf-8")
    found = find_keys(importer.run(tmp_path / "run.sh"), Kind.TO_DO)
    assert found - {"--source-class"} == options & {"--filter-dupes"}


@pytest.mark.parametrize(
    ("arguments", "is_unwrapped", "is_reported"),
    [
        ("--source-class org.apache.hudi.utilities.sources.JsonDFSSource", False, True),
        ("--source-class JsonDFSSource --payload-class org.apache.MySqlDebeziumAvroPayload", True, True),
        ("--source-class org.apache.hudi.utilities.sources.ParquetDFSSource", False, False),
    ],
)
def test_change_events_need_unwrap(
    arguments: str, is_unwrapped: bool, is_reported: bool, importer: Any, tmp_path: Path
) -> None:
    command = (
        f"spark-submit --class HoodieStreamer hudi.jar --target-base-path s3://lake/shop/orders {arguments} "
        "--hoodie-conf hoodie.streamer.source.dfs.root=s3://events/orders"
    )
    (tmp_path / "run.sh").write_text(command, encoding="utf-8")
    result = importer.run(tmp_path / "run.sh", take_over=True)
    importer.check(result)
    assert ("transforms" in yaml.safe_load(result.pipeline)) is is_unwrapped
    assert ("unwrap" in str(result.report)) is is_reported


def test_source_class_gives_the_format(importer: Any, tmp_path: Path, find_keys: Any) -> None:
    address = "http://user:hunter2@registry:8081/subjects/orders-value/versions/latest"
    text = PROPERTIES.replace("http://registry:8081/subjects/shop.public.orders-value/versions/latest", address)
    (tmp_path / "orders.properties").write_text(text, encoding="utf-8")
    for source, expected in {"Json": "json", "Avro": {"avro": {"registry": VARIABLE}}}.items():
        command = COMMAND.replace("debezium.PostgresDebeziumSource", f"{source}KafkaSource")
        (tmp_path / "run.sh").write_text(command, encoding="utf-8")
        result = importer.run(tmp_path / "run.sh", tmp_path / "orders.properties")
        assert yaml.safe_load(result.pipeline)["source"]["value"] == expected
        is_told = "without its path" in " ".join(str(result.report).split())
        assert is_told is (source == "Avro")
        assert "hunter2" not in result.pipeline + str(result.report)


@pytest.mark.parametrize(
    ("files", "error"),
    [
        ({"a.properties": "hoodie.table.name=a"}, "the source of the job is not known"),
        ({"a.properties": "hoodie.table.name=a\ninclude=none.properties"}, "No such file"),
        ({"a.sh": "spark-submit --class HoodieStreamer 'open"}, "not a command line"),
        (
            {
                "a.properties": "hoodie.streamer.source.dfs.root=a",
                "b.json": '{"connector.class": "io.debezium.connector.mysql.MySqlConnector"}',
            },
            "these files do not make one pipeline",
        ),
    ],
)
def test_wrong_jobs(files: dict[str, str], error: str, tmp_path: Path) -> None:
    for name, content in files.items():
        (tmp_path / name).write_text(content, encoding="utf-8")
    result = CliRunner().invoke(cli, ["import", *(str(tmp_path / name) for name in files)])
    assert (result.exit_code, error in result.stderr) == (2, True), result.stderr


def test_tables_are_taken_over_in_their_folders(importer: Any, tmp_path: Path) -> None:
    properties = (
        "hoodie.streamer.source.kafka.topic=shop.public.{0}\nbootstrap.servers=broker:9092\n"
        "hoodie.datasource.write.recordkey.field=id\nhoodie.index.type=BUCKET\nhoodie.bucket.index.num.buckets=8\n"
    )
    command = (
        "spark-submit --class HoodieStreamer x.jar --props {0}.properties --op UPSERT --table-type COPY_ON_WRITE "
        "--target-base-path s3://lake/silver/{0}_v1/ --target-table {0}"
    )
    for name in ("orders", "people"):
        (tmp_path / f"{name}.properties").write_text(properties.format(name), encoding="utf-8")
        (tmp_path / f"{name}.sh").write_text(command.format(name), encoding="utf-8")
    with (tmp_path / "orders.properties").open("a", encoding="utf-8") as file:
        file.write("hoodie.datasource.write.partitionpath.field=country\n")
    files = [tmp_path / f"{name}.{kind}" for name in ("orders", "people") for kind in ("sh", "properties")]
    result = importer.run(*files, take_over=True)
    importer.check(result)
    pipeline = yaml.safe_load(result.pipeline)
    assert pipeline["sink"] == {"hudi": {"path": "s3://lake/silver", "take.over": True}}
    own = {"table.type": "COPY_ON_WRITE", "mode": "upsert"}
    assert pipeline["tables"] == [
        {
            "source": "shop.public.orders",
            "target": "orders_v1",
            "key": ["id"],
            "sink": {
                "hudi": {
                    **own,
                    "hoodie.datasource.write.partitionpath.field": "country",
                    "hoodie.bucket.index.num.buckets": "8",
                }
            },
        },
        {
            "source": "shop.public.people",
            "target": "people_v1",
            "key": ["id"],
            "sink": {"hudi": {**own, "hoodie.index.type": "SIMPLE"}},
        },
    ]
    assert "stop Hudi Streamer after a completed write" in " ".join(str(result.report).split())


def test_a_takeover_requires_the_folders_of_the_tables(importer: Any, tmp_path: Path) -> None:
    (tmp_path / "orders.properties").write_text(PROPERTIES, encoding="utf-8")
    with pytest.raises(ConfigError, match="the folder of the table is not known"):
        importer.run(tmp_path / "orders.properties", take_over=True)
    (tmp_path / "run.sh").write_text(COMMAND.replace("silver/orders", "silver/orders.v1"), encoding="utf-8")
    with pytest.raises(ConfigError, match=r"the folder 'orders.v1' cannot be the name of a table"):
        importer.run(tmp_path / "run.sh", tmp_path / "orders.properties", take_over=True)
    for variable in ("${ORDERS}", "$ORDERS/", "'${file:/etc/lake.properties:orders}'"):
        (tmp_path / "run.sh").write_text(COMMAND.replace("s3://lake/silver/orders", variable), encoding="utf-8")
        with pytest.raises(ConfigError, match=r"the folder is one variable, .*\n.*as in `--target-base-path \$\{LAKE"):
            importer.run(tmp_path / "run.sh", tmp_path / "orders.properties", take_over=True)
    (tmp_path / "run.sh").write_text(COMMAND.replace("s3://lake/silver", "${LAKE}"), encoding="utf-8")
    taken = yaml.safe_load(importer.run(tmp_path / "run.sh", tmp_path / "orders.properties", take_over=True).pipeline)
    assert (taken["sink"]["hudi"]["path"], taken["tables"][0]["target"]) == ("${env:LAKE}", "orders")


JOB = (
    "spark-submit --class HoodieStreamer x.jar --source-class org.apache.hudi.utilities.sources.JsonKafkaSource "
    "--table-type COPY_ON_WRITE --target-base-path s3://lake/silver/orders --target-table orders "
    "--hoodie-conf bootstrap.servers=b:9092 --hoodie-conf hoodie.streamer.source.kafka.topic=orders "
    "--hoodie-conf hoodie.datasource.write.recordkey.field=id "
)


def write_script(folder: Path, text: str) -> Path:
    (folder / "run.sh").write_text(text, encoding="utf-8")
    return folder / "run.sh"


def test_consumer_options_of_a_job_are_those_of_the_source(importer: Any, tmp_path: Path) -> None:
    options = {"isolation.level": "read_committed", "fetch.max.bytes": "1", "client.rack": "x"}
    text = JOB + " ".join(f"--hoodie-conf {key}={value}" for key, value in options.items())
    (tmp_path / "run.sh").write_text(text, encoding="utf-8")
    result = importer.run(tmp_path / "run.sh")
    importer.check(result)
    kafka = yaml.safe_load(result.pipeline)["source"]["kafka"]
    assert {key: kafka.get(f"kafka.{key}") for key in options} == options


@pytest.mark.parametrize("take_over", [True, False])
def test_jobs_of_one_table_have_one_set_of_options(take_over: bool, importer: Any, tmp_path: Path) -> None:
    other = JOB.replace("topic=orders", "topic=more").replace("silver/orders", "silver/orders/")
    files = [tmp_path / "a.sh", tmp_path / "b.sh"]
    for file, text in zip(files, (JOB, other), strict=True):
        file.write_text(text, encoding="utf-8")
    result = importer.run(*files, take_over=take_over)
    importer.check(result)
    assert len(set(importer.name_tables(result, "orders", "more"))) == 1
    for old, new in (("field=id", "field=number"), ("COPY_ON_WRITE", "MERGE_ON_READ")):
        files[1].write_text(other.replace(old, new), encoding="utf-8")
        with pytest.raises(ConfigError, match="with different options"):
            importer.run(*files, take_over=take_over)


@pytest.mark.parametrize("folder", ["s3://lake/", "s3://lake", "file:/"])
def test_a_table_at_the_root_of_a_bucket_is_not_taken_over(folder: str, importer: Any, tmp_path: Path) -> None:
    (tmp_path / "run.sh").write_text(JOB.replace("s3://lake/silver/orders", folder), encoding="utf-8")
    with pytest.raises(ConfigError, match="a whole bucket"):
        importer.run(tmp_path / "run.sh", take_over=True)


def test_partition_columns_have_no_types_of_a_key_generator(importer: Any, tmp_path: Path, find_keys: Any) -> None:
    option = "hoodie.datasource.write.partitionpath.field"
    (tmp_path / "run.sh").write_text(f"{JOB} --hoodie-conf {option}=country:SIMPLE,at:TIMESTAMP", encoding="utf-8")
    result = importer.run(tmp_path / "run.sh")
    (table,) = yaml.safe_load(result.pipeline)["tables"]
    assert table["sink"]["hudi"][option] == "country,at"
    assert option in find_keys(result, Kind.TO_DO)


@pytest.mark.parametrize(
    "generator", ["class=org.apache.hudi.keygen.TimestampBasedKeyGenerator", "type=TIMESTAMP_AVRO"]
)
def test_times_of_a_key_generator_are_to_do(generator: str, importer: Any, tmp_path: Path, find_keys: Any) -> None:
    option, times = "hoodie.datasource.write.partitionpath.field", "hoodie.keygen.timebased.output.dateformat"
    text = f"{JOB} --hoodie-conf {option}=at --hoodie-conf {times}=yyyy "
    script = write_script(tmp_path, f"{text} --hoodie-conf hoodie.datasource.write.keygenerator.{generator}")
    result = importer.run(script)
    assert yaml.safe_load(result.pipeline)["tables"][0]["sink"]["hudi"] == {"table.type": "COPY_ON_WRITE", option: "at"}
    assert {option, times} <= find_keys(result, Kind.TO_DO)
    assert times in find_keys(importer.run(write_script(tmp_path, text)), Kind.NO_MEANING)


@pytest.mark.parametrize("generator", ["class=org.apache.hudi.keygen.NonpartitionedKeyGenerator", "type=NON_PARTITION"])
def test_a_key_generator_may_make_no_partitions(generator: str, importer: Any, tmp_path: Path, find_keys: Any) -> None:
    option = "hoodie.datasource.write.partitionpath.field"
    text = f"{JOB} --hoodie-conf {option}=at --hoodie-conf hoodie.datasource.write.keygenerator.{generator}"
    result = importer.run(write_script(tmp_path, text), take_over=True)
    options = yaml.safe_load(result.pipeline)["tables"][0]["sink"]["hudi"]
    assert options == {"table.type": "COPY_ON_WRITE", "hoodie.index.type": "SIMPLE"}
    assert option in find_keys(result, Kind.NO_MEANING)


def test_variables_of_the_shell_are_to_set(importer: Any, tmp_path: Path) -> None:
    file = tmp_path / "run.sh"
    file.write_text(
        "spark-submit --class org.apache.hudi.HoodieStreamer $JAR.jar --target-base-path $LAKE/orders --target-table orders "
        "--hoodie-conf hoodie.streamer.source.kafka.topic=${TOPIC}_$1 --hoodie-conf bootstrap.servers=broker:9092\n"
    )
    result = importer.run(file)
    pipeline = yaml.safe_load(result.pipeline)
    assert pipeline["source"]["kafka"]["subscribe"] == ["${env:TOPIC}_${env:ARGUMENT_1}"]
    (fix,) = [
        finding.fix for finding in result.report.findings if finding.kind is Kind.TO_DO and "the shell" in finding.why
    ]
    assert fix == "set the environment variables TOPIC, ARGUMENT_1, LAKE"
