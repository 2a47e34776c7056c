"""An object that S3 does not allow to read: its table is set aside and catches up later, and other tables continue."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import pytest
from tests.plugins.sources.notifications.test_object_events import record, s3 as notification
from tests.support.glue import Glue
from tests.support.s3_proxy import Fault, S3Proxy
from tests.support.s3a import bucket_options
from tests.support.tiers import nightly_after

from headrace import ConfigError, Pipeline
from headrace_sources.transports.forbidden_files import restore_name
from headrace_stack import S3

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DENIED = Fault(403, "AccessDenied", "Access Denied")
FORBIDDEN = "topics/visits/part [1] +%20ä.json"


@pytest.fixture
def proxy(s3: S3) -> Iterator[S3Proxy]:
    with S3Proxy(s3) as server:
        yield server


def test_other_names_stay() -> None:
    assert restore_name("s3a://landing/topics/t/a%20b.json") == "s3a://landing/topics/t/a%20b.json"


def open_pipeline(folder: Path, path: str, **options: Any) -> Pipeline:
    config = {
        "name": "landing",
        "source": {"files": {"path": path, "format": "json", **options}},
        "sink": {"files": {"path": f"{folder}/out", "format": "json"}},
        "checkpoint": f"{folder}/checkpoint",
    }
    return Pipeline.from_dict(config)


@pytest.mark.spark
@pytest.mark.dist
@pytest.mark.slow
@pytest.mark.parametrize("bucket", nightly_after(1, ["listed", "notified"]))
def test_one_forbidden_object(
    bucket: str, tmp_path: Path, spark: SparkSession, s3: S3, proxy: S3Proxy, request: pytest.FixtureRequest
) -> None:
    hadoop: Any = spark._jsc.hadoopConfiguration()
    keys = {"access.key": s3.access_key, "secret.key": s3.secret_key, "endpoint": proxy.endpoint_url}
    for key, value in bucket_options(bucket, {**s3.hadoop_options, **keys}).items():
        hadoop.set(key, value)
    s3.create_bucket(bucket)
    options: dict[str, Any] = {}
    if bucket == "notified":
        request.getfixturevalue("aws_credentials")
        glue: Glue = request.getfixturevalue("glue")
        url = glue.client("sqs").create_queue(QueueName=bucket)["QueueUrl"].replace("localhost", glue.host)
        options = {"notifications": {"queueUrl": url}}

    def put(key: str, number: int) -> None:
        s3.put(bucket, key, json.dumps({"id": number}).encode())
        if options:
            message = notification(record(quote(key, safe="/"), bucket=bucket))
            glue.client("sqs").send_message(QueueUrl=url, MessageBody=message)

    def run() -> None:
        open_pipeline(tmp_path, f"s3a://{bucket}/topics", **options).run(spark)

    def read() -> dict[str, list[int]]:
        pipeline = open_pipeline(tmp_path, f"s3a://{bucket}/topics", **options)
        frames = {table: pipeline.read(table, spark=spark).select("id") for table in ("orders", "visits")}
        return {table: sorted(row["id"] for row in frame.collect()) for table, frame in frames.items()}

    put("topics/orders/1.json", 1)
    put("topics/visits/1.json", 2)
    run()
    put("topics/orders/2.json", 3)
    put(FORBIDDEN, 4)
    proxy.fail(DENIED, times=1_000_000, methods="GET HEAD", path=f"{bucket}/topics/visits/part")
    reason = f"s3a://{bucket}/{FORBIDDEN}: permission denied: this identity may not read the file"
    with pytest.raises(ConfigError, match=re.escape(reason)) as raised:
        run()
    assert "s3:GetObject" in str(raised.value)
    assert read() == {"orders": [1, 3], "visits": [2]}

    put("topics/orders/3.json", 5)
    put("topics/visits/3.json", 6)
    with pytest.raises(ConfigError, match=re.escape(reason)):
        run()
    assert read() == {"orders": [1, 3, 5], "visits": [2]}

    proxy.fail(DENIED, times=0)
    run()
    run()  # The next listing does not read the object again.
    assert read() == {"orders": [1, 3, 5], "visits": [2, 4, 6]}
