"""Pipeline of the page (docs/files.md) on S3 and SQS of moto: each object is read once, with and without notifications."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from botocore.exceptions import ClientError
from tests.plugins.sources.notifications.test_object_events import record, s3
from tests.support.glue import Glue
from tests.support.pages import find_block
from tests.support.s3a import SHORT_RETRIES, bucket_options
from tests.support.waiting import stop_at_end, until

from headrace import ConfigError, Pipeline
from headrace.errors import DataError
from headrace_sources.notifications.notification_queue import NotificationQueue

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.dist, pytest.mark.one_spark, pytest.mark.slow]

BUCKET = "landing"


class Landing:
    """Bucket whose notifications arrive in a queue."""

    def __init__(self, aws: Glue) -> None:
        self.store, self.sqs = aws.client("s3"), aws.client("sqs")
        self.url = self.sqs.create_queue(QueueName=BUCKET)["QueueUrl"].replace("localhost", aws.host)
        location = {"LocationConstraint": aws.region}
        self.store.create_bucket(Bucket=BUCKET, CreateBucketConfiguration=location)

    def notify(self) -> None:
        found = self.sqs.get_queue_attributes(QueueUrl=self.url, AttributeNames=["QueueArn"])
        queue = {"QueueArn": found["Attributes"]["QueueArn"], "Events": ["s3:ObjectCreated:*"]}
        self.store.put_bucket_notification_configuration(
            Bucket=BUCKET, NotificationConfiguration={"QueueConfigurations": [queue]}
        )

    def put(self, key: str, *ids: int) -> None:
        lines = "".join(json.dumps({"id": number}) + "\n" for number in ids)
        self.store.put_object(Bucket=BUCKET, Key=f"topics/{key}", Body=lines.encode())

    def count_messages(self) -> int:
        names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
        found = self.sqs.get_queue_attributes(QueueUrl=self.url, AttributeNames=names)["Attributes"]
        return sum(int(found[name]) for name in names)


@pytest.fixture
def landing(glue: Glue, aws_credentials: None, spark: SparkSession) -> Landing:
    hadoop: Any = spark._jsc.hadoopConfiguration()
    options = {"fs.s3a.endpoint": glue.endpoint_url, "fs.s3a.endpoint.region": glue.region}
    options |= {"fs.s3a.path.style.access": "true", "fs.s3a.connection.ssl.enabled": "false"}
    keys = {"access.key": "AKIDEXAMPLE", "secret.key": "example"}
    for key, value in bucket_options(BUCKET, {**options, **SHORT_RETRIES, **keys}).items():
        hadoop.set(key, value)
    return Landing(glue)


def open_pipeline(folder: Path, queue: str | None, **options: Any) -> Pipeline:
    """Return the pipeline of the page with a sink that appends; without a queue it lists."""
    config = yaml.safe_load(find_block("docs/files.md", "yaml", "name: landing"))
    files = config["source"]["files"]
    files["notifications"]["queueUrl"] = queue
    if queue is None:
        del files["notifications"]
    files.update(options)
    config["sink"] = {"files": {"path": f"{folder}/out", "format": "json"}}
    return Pipeline.from_dict({**config, "checkpoint": f"{folder}/checkpoint"})


def read_ids(pipeline: Pipeline, spark: SparkSession) -> list[int]:
    return sorted(row["id"] for row in pipeline.read("t", spark=spark).select("id").collect())


def throttle(_: NotificationQueue) -> None:
    raise ClientError({"Error": {"Code": "ThrottlingException", "Message": "Rate exceeded"}}, "ReceiveMessage")


def test_each_object_is_read_once(
    landing: Landing, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    landing.put("t/old.json", 1)
    landing.notify()
    landing.put("t/a.json", 2)
    pipeline = open_pipeline(tmp_path, landing.url)
    # S3 sends a test message.
    assert ("source files, queue", "about 2 messages") in list(pipeline.source.connect(spark))
    pipeline.run(spark)
    assert read_ids(pipeline, spark) == [1, 2]
    assert landing.count_messages() == 0

    landing.put("t/a.json", 3)
    landing.put("t/day=2026-01-31/x y+z%20é.json", 4)
    landing.put("t/_temporary/x.json", 5)
    landing.sqs.send_message(QueueUrl=landing.url, MessageBody=s3(record("topics/t/old.json")))
    open_pipeline(tmp_path, landing.url).run(spark)
    assert read_ids(pipeline, spark) == [1, 2, 4]
    assert landing.count_messages() == 0

    landing.put("t/b.json", 6)
    open_pipeline(tmp_path, None).run(spark)  # The listing has the same files, and finds the new one.
    assert read_ids(pipeline, spark) == [1, 2, 4, 6]

    landing.put("t/gone.json", 7)
    landing.store.delete_object(Bucket=BUCKET, Key="topics/t/gone.json")
    with pytest.raises(DataError, match=r"t/gone.json: a listed file no longer exists"):
        open_pipeline(tmp_path, landing.url).run(spark)
    pipeline = open_pipeline(tmp_path, landing.url, ignoreMissingFiles=True)
    with stop_at_end(pipeline.start(spark)) as query:
        landing.put("t/c.json", 8)
        until(lambda: query.last_progress and 8 in read_ids(pipeline, spark), "the object")
        with monkeypatch.context() as changes:
            changes.setattr(NotificationQueue, "_receive_some", throttle)
            until(lambda: "Rate exceeded" in query.status.message, "the error in the status")
        landing.put("t/d.json", 9)
        until(lambda: 9 in read_ids(pipeline, spark), "the object after the error")
        until(lambda: "Rate exceeded" not in query.status.message, "the end of the error")
        landing.sqs.delete_queue(QueueUrl=landing.url)
        with pytest.raises(ConfigError, match=f"queue {landing.url}: no such queue"):
            query.await_termination(60)
    assert read_ids(pipeline, spark) == [1, 2, 4, 6, 8, 9]
