"""Pipeline from database changes in Kinesis to an Iceberg table in the Glue catalog, set up step by step as on AWS.

kinesis-local replaces Kinesis. moto replaces Glue, S3, STS, Secrets Manager and Parameter Store. The test writes the records
of Debezium Server itself.
"""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.core.conftest import start
from tests.support.glue import Glue, set_aws_keys
from tests.support.waiting import until

from headrace import Pipeline
from headrace_stack import Kinesis

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.nightly, pytest.mark.spark, pytest.mark.dist, pytest.mark.one_spark]

STREAM = "shop.public.customers"
SALT, EXTERNAL_ID = "a-salt-that-nobody-knows-4711", "external-0815"


@pytest.fixture(scope="module")
def aws() -> Iterator[Glue]:
    with Glue() as server:
        yield server


@pytest.fixture
def environment(aws: Glue, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Set keys, region and endpoints as on an AWS machine, for this process, its JVM and its executors."""
    for name, value in aws.environment.items():
        monkeypatch.setenv(name, value)
        monkeypatch.setitem(spark.sparkContext.environment, name, value)
    with set_aws_keys(spark):
        yield


def pipeline_file(kinesis: Kinesis, aws: Glue, folder: Path) -> Path:
    """Write the pipeline file. A real one differs only in that it has no endpoints."""
    file = folder / "customers.yaml"
    file.write_text(f"""\
name: customers
source:
  kinesis:
    stream: {STREAM}
    region: us-east-1
    role.arn: arn:aws:iam::123456789012:role/customers-reader
    external.id: "${{ssm:/prod/headrace/external-id}}"
    max.fetch.records.per.shard: 10
    endpoint.url: {kinesis.endpoint_url}
  value: {{json: {{}}}}
tables:
  - {{source: {STREAM}, target: shop.customers}}
transforms:
  - unwrap: {{}}
  - mask: {{columns: {{email: {{sha256: {{salt: "${{secretManager:prod/headrace:salt}}"}}}}}}}}
sinks:
  - iceberg:
      catalog: lake_of_customers
      catalog.properties:
        type: glue
        warehouse: s3://lake/silver
        client.region: {aws.region}
        glue.endpoint: {aws.endpoint_url}
        s3.endpoint: {aws.endpoint_url}
        s3.path-style-access: "true"
  - files: {{path: {folder}/changes, format: json, mode: changelog}}
checkpoint: {folder}/checkpoint
trigger: 100 milliseconds
spark: {{spark.master: "local[2]", spark.driver.memory: 1g}}
""")
    return file


class Database:
    """Table of customers that writes every change to the stream in the form of Debezium Server."""

    def __init__(self, kinesis: Kinesis) -> None:
        self._kinesis = kinesis
        self.rows: dict[int, dict[str, Any]] = {}
        #: Operation, number and name.
        self.changes: list[tuple[str, int, str | None]] = []

    def insert(self, number: int) -> None:
        self._change("c", number, {"id": number, "name": f"customer {number}", "email": f"c{number}@example.org"})

    def rename(self, number: int) -> None:
        self._change("u", number, {**self.rows[number], "name": f"renamed {number}"})

    def delete(self, number: int) -> None:
        self._change("d", number, None)

    def _change(self, op: str, number: int, after: dict[str, Any] | None) -> None:
        before = self.rows.pop(number, None)
        if after is not None:
            self.rows[number] = after
        self.changes.append((op, number, after["name"] if after else None))
        lsn = len(self.changes)
        source = {"connector": "postgresql", "ts_ms": 1_700_000_000_000, "lsn": lsn, "sequence": f'["{lsn}","{lsn}"]'}
        event = {"before": before, "after": after, "op": op, "source": source}
        self._kinesis.put(STREAM, (json.dumps({"id": number}), json.dumps(event).encode()))


def read_changes(folder: Path) -> list[tuple[str, int, str | None]]:
    """Return all changes that the files sink wrote."""
    lines = [line for file in (folder / "changes").rglob("part-*") for line in file.read_text().splitlines()]
    return sorted((row["__op"], row["id"], row.get("name")) for row in map(json.loads, lines))


def test_database_changes_reach_iceberg_table_in_glue(
    kinesis: Kinesis, aws: Glue, environment: None, tmp_path: Path, spark: SparkSession
) -> None:
    # Create a stream, a bucket, and two secrets that are in no file.
    kinesis.create_stream(STREAM, shards=2)
    location = {"LocationConstraint": aws.region}
    aws.client("s3").create_bucket(Bucket="lake", CreateBucketConfiguration=location)
    aws.client("secretsmanager").create_secret(Name="prod/headrace", SecretString=json.dumps({"salt": SALT}))
    aws.client("ssm").put_parameter(Name="/prod/headrace/external-id", Value=EXTERNAL_ID, Type="SecureString")
    file = pipeline_file(kinesis, aws, tmp_path)

    # The database has customers and changes them.
    database = Database(kinesis)
    for number in range(30):
        database.insert(number)
    for number in range(0, 30, 2):
        database.rename(number)
    for number in range(0, 30, 5):
        database.delete(number)

    # The pipeline is killed in the second batch, as in a power failure.
    with (tmp_path / "log").open("w") as log:
        options = {"stdout": log, "stderr": log, "start_new_session": True}
        process = start(tmp_path, "run", str(file), "--log-format", "text", **options)
        try:
            second, changes = "_headrace_batch=*-0000000001-*/_SUCCESS", tmp_path / "changes/shop/customers"
            until(lambda: [*changes.glob(second)] or process.poll() is not None, "the second batch in one of the sinks")
            assert process.poll() is None, (tmp_path / "log").read_text()
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(30)
    assert len(read_changes(tmp_path)) < len(database.changes)

    # Meanwhile a shard of the stream is split, and the database continues.
    kinesis.split(STREAM, "shardId-000000000000")
    database.insert(100)
    database.rename(1)
    database.delete(2)

    # A second run continues from the checkpoint.
    pipeline = Pipeline.from_file(file)
    for key, value in pipeline.sinks[0].session_conf().items():
        spark.conf.set(key, value)
    summary = pipeline.run(spark)
    assert {total.dead_letters for total in summary.tables} == {0}

    # The table equals the database.
    rows = {row["id"]: row for row in pipeline.read("shop.customers", spark=spark).collect()}
    assert {number: row["name"] for number, row in rows.items()} == {n: row["name"] for n, row in database.rows.items()}
    # Every change was written once, including the changes of the interrupted batch.
    assert read_changes(tmp_path) == sorted(database.changes)
    # No file contains an email address or a secret.
    assert all(re.fullmatch("[0-9a-f]{64}", row["email"]) for row in rows.values())
    assert len({row["email"] for row in rows.values()}) == len(rows)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    for canary in (b"@example.org", SALT.encode(), EXTERNAL_ID.encode()):
        assert not [path for path in files if canary in path.read_bytes()]
    # Athena finds the table in Glue.
    table = aws.client().get_table(DatabaseName="shop", Name="customers")["Table"]
    assert table["Parameters"]["table_type"] == "ICEBERG"
    assert table["Parameters"]["metadata_location"].startswith("s3://lake/silver/shop.db/customers/")
    assert {"id", "name", "email"} <= {column["Name"] for column in table["StorageDescriptor"]["Columns"]}

    # The next day a customer comes back.
    database.insert(2)
    pipeline.run(spark)
    (again,) = pipeline.read("shop.customers", spark=spark).where("id = 2").collect()
    assert again["name"] == "customer 2"
