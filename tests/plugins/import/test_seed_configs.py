"""Published configurations of Kafka Connect (tests/data/README.md)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.support.dist import ROOT

SEED = ROOT / "tests/data/seed_configs"
CONNECTORS = sorted(SEED.glob("*.json"))
REGISTRY = {"avro": {"registry": "http://localhost:8080/apis/registry/v2"}}


@pytest.mark.parametrize("file", CONNECTORS, ids=lambda path: path.stem)
def test_each_connector_becomes_a_valid_pipeline(file: Path, importer: Any) -> None:
    result = importer.run(file)
    importer.check(result)
    assert "your-password" not in result.pipeline + str(result.report)
    assert "unknown options" not in str(result.report)


def test_source_and_sink_become_one_pipeline(importer: Any) -> None:
    files = [SEED / "source_connector_moma_postgres_kafka.json", SEED / "sink_connector_moma_kafka_s3.json"]
    result = importer.run(*files, bootstrap_servers="broker:9092", name="moma")
    importer.check(result)
    assert yaml.safe_load(result.pipeline) == {
        "name": "moma",
        "source": {
            "kafka": {"bootstrap.servers": "broker:9092", "subscribePattern": "moma.public.(.*)"},
            "value": REGISTRY,
            "key": REGISTRY,
        },
        "transforms": [
            {
                "unwrap": {
                    # The authors keep deleted rows: an object cannot lose a row.
                    "delete.tombstone.handling.mode": "rewrite",
                    "add.fields": "op,db,table,schema,lsn,source.ts_ms",
                }
            }
        ],
        "sink": {
            "s3": {
                "path": "s3a://<your_data_lake_bucket>",
                "format": "avro",
                "flush.size": 10000,
                "rotate.schedule.interval.ms": 60000,
                "timezone": "UTC",
                "behavior.on.null.values": "ignore",
                "partitioner": "default",
            }
        },
        "spark": {"spark.hadoop.fs.s3a.endpoint.region": "us-east-1"},
        "checkpoint": "s3a://<your_data_lake_bucket>/_checkpoints/moma",
    }


def test_worker_gives_brokers_login_and_converters(importer: Any) -> None:
    files = [SEED / "connect-distributed.properties", SEED / "jdbc_source_connector_postgresql_01.json"]
    result = importer.run(*files, keep_transforms=True)
    importer.check(result)
    pipeline = yaml.safe_load(result.pipeline)
    kafka = pipeline["source"]["kafka"]
    assert kafka.pop("bootstrap.servers").startswith("b-1.your-bootstrap-broker.kafka.us-east-1.amazonaws.com:9098,b-2")
    assert kafka == {
        "auth": {"msk-iam": {}},
        "kafka.ssl.truststore.location": "/tmp/kafka.client.truststore.jks",
        "subscribe": ["pagila.public.alt.address"],
    }
    assert (pipeline["source"]["value"], pipeline["source"]["key"]) == ("json", "json")


def test_pipeline_reads_the_database_of_a_jdbc_connector(importer: Any) -> None:
    files = [SEED / "connect-distributed.properties", SEED / "jdbc_source_connector_postgresql_01.json"]
    result = importer.run(*files)
    importer.check(result)
    pipeline = yaml.safe_load(result.pipeline)
    assert pipeline["source"].keys() == {"jdbc"}
    assert pipeline["source"]["jdbc"]["table.whitelist"] == ["address"]
    assert pipeline["tables"] == [{"source": "*", "key": ["address_id"]}]
    assert pipeline["transforms"] == [
        {"insert": {"topic.field": "message_topic"}},
        {"insert": {"static.field": "message_source", "static.value": "pagila"}},
    ]


def test_properties_of_a_client_give_the_login(importer: Any) -> None:
    result = importer.run(SEED / "client-iam.properties", SEED / "s3_sink_connector_00.json")
    importer.check(result)
    assert yaml.safe_load(result.pipeline)["source"]["kafka"]["auth"] == {"msk-iam": {}}
