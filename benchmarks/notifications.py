"""Requests and seconds in which the source ``files`` finds new objects, by listings and by S3 event notifications.

    python -m benchmarks.notifications [--objects 10000] [--folders 100] [--new 100]

S3 and SQS are those of moto in this process, which counts the requests. The stream plans its batches and does not read them.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, cast

import boto3
from moto.moto_server.threaded_moto_server import ThreadedMotoServer
from moto.moto_server.werkzeug_app import DomainDispatcherApplication
from moto.s3.models import s3_backends
from tests.conftest import start_session

from headrace.sdk.schema_log import SchemaLog
from headrace.sdk.source import SourceContext
from headrace.spark.storage import Folder
from headrace_sources.transports.file_listing import read_planned_files
from headrace_sources.transports.files import FilesSource

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BUCKET, REGION, ACCOUNT = "landing", "eu-west-1", "123456789012"
_KEYS = {"AWS_ACCESS_KEY_ID": "AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY": "example", "AWS_REGION": REGION}


class Store:
    """Bucket of moto with a queue, and the requests that they receive."""

    def __init__(self) -> None:
        self.requests: Counter[str] = Counter()
        self.server = ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
        self.server.start()
        host, port = self.server.get_host_and_port()
        self.address = f"http://{host}:{port}"
        handle = DomainDispatcherApplication.__call__

        def count(application: Any, environ: dict[str, Any], start_response: Any) -> Any:
            self.requests[name_request(environ)] += 1
            return handle(application, environ, start_response)

        setattr(DomainDispatcherApplication, "__call__", count)  # noqa: B010 - moto has no hook for requests
        self._store, sqs = (boto3.client(name, REGION, endpoint_url=self.address) for name in ("s3", "sqs"))
        self._store.create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": REGION})
        self.queue = sqs.create_queue(QueueName=BUCKET)["QueueUrl"].replace("localhost", host)

    def fill(self, objects: int, folders: int) -> None:
        """Create objects without notifications, and without requests, which take longer."""
        backend: Any = cast("Any", s3_backends)[ACCOUNT]["aws"]
        for number in range(objects):
            backend.put_object(BUCKET, name_key(number, folders), b"{}\n")
        queue = {"QueueArn": f"arn:aws:sqs:{REGION}:{ACCOUNT}:{BUCKET}", "Events": ["s3:ObjectCreated:*"]}
        configuration = {"QueueConfigurations": [queue]}
        self._store.put_bucket_notification_configuration(Bucket=BUCKET, NotificationConfiguration=configuration)

    def add(self, name: str, objects: int) -> None:
        """Create objects with notifications."""
        for number in range(objects):
            self._store.put_object(Bucket=BUCKET, Key=f"topics/t/part={name}/{number}.json", Body=b"{}\n")


def name_key(number: int, folders: int) -> str:
    """Return the key of an object that exists before the stream."""
    return f"topics/t/part={number % folders}/{number}.json"


def write_checkpoint(folder: Path, objects: int, folders: int) -> None:
    """Write the checkpoint of a stream that has planned all objects: planning them here takes minutes."""
    lines = [
        json.dumps({"path": f"s3a://{BUCKET}/{name_key(number, folders)}", "timestamp": 1, "batchId": int(number == 0)})
        for number in range(objects)
    ]
    files = {"metadata": json.dumps({"id": str(uuid.uuid4())})}
    # At a start, Spark requests the status of each file of the last batch, so the last batch has one file.
    for batch, part in enumerate((lines[1:], lines[:1])):
        files[f"sources/0/{batch}"] = "\n".join(["v1", *part])
        files[f"offsets/{batch}"] = (
            f'v1\n{{"batchWatermarkMs":0,"batchTimestampMs":0,"conf":{{}}}}\n{{"logOffset":{batch}}}'
        )
        files[f"commits/{batch}"] = 'v1\n{"nextBatchWatermarkMs":0}'
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")


def name_request(environ: dict[str, Any]) -> str:
    """Return the operation of a request as S3 and SQS bill it."""
    target = str(environ.get("HTTP_X_AMZ_TARGET", ""))
    if target:
        return "SQS"
    is_list = "list-type" in environ["QUERY_STRING"]
    return "LIST" if is_list else str(environ["REQUEST_METHOD"])


@contextmanager
def open_stream(spark: SparkSession, store: Store, folder: Path, *, is_notified: bool) -> Iterator[Any]:
    """Start a continuous stream of the source; yield the function that returns the number of planned files."""
    options: dict[str, Any] = {"path": f"s3a://{BUCKET}/topics/", "format": "json"}
    if is_notified:
        options["notifications"] = {"queueUrl": store.queue, "region": REGION}
    source, planned = FilesSource(options), 0
    context = SourceContext(spark, SchemaLog(), stream=Folder(spark, f"{folder}/stream"))

    def count(_: DataFrame, batch: int) -> None:
        nonlocal planned
        planned += len(read_planned_files(replace(context, batch=batch)) or ())

    source.check_stream(context)
    writer = source.stream(spark).writeStream.option("checkpointLocation", f"{folder}/stream").foreachBatch(count)
    query = writer.trigger(processingTime="1 second").start()

    def poll() -> int:
        source.poll()
        return planned

    try:
        yield poll
    finally:
        query.stop()


def measure(spark: SparkSession, store: Store, name: str, arguments: argparse.Namespace) -> None:
    """Print a row of the table."""
    with TemporaryDirectory() as folder:
        write_checkpoint(Path(folder) / "stream", arguments.objects, arguments.folders)
        store.requests.clear()
        with open_stream(spark, store, Path(folder), is_notified=name == "notifications") as count_planned:
            wait_for(count_planned, 0 if name == "listings" else arguments.new)
            time.sleep(5)
            started = dict(store.requests)
            store.requests.clear()
            time.sleep(10)
            idle = dict(store.requests)
            store.add(name, arguments.new)
            expected = count_planned() + arguments.new
            store.requests.clear()
            start = time.monotonic()
            wait_for(count_planned, expected)
            seconds = time.monotonic() - start
            cells = [name, describe(started), describe(idle), describe(store.requests), f"{seconds:.1f}"]
            print(f"| {' | '.join(cells)} |", flush=True)


def describe(requests: Counter[str] | dict[str, int]) -> str:
    """Return the numbers of requests as text."""
    return ", ".join(f"{count} {name}" for name, count in sorted(requests.items())) or "0"


def wait_for(count_planned: Any, expected: int) -> None:
    """Wait until the stream has planned a number of files, and poll the source every second, as a run does."""
    while count_planned() < expected:
        time.sleep(1)


def main() -> None:
    """Measure both ways on the same bucket."""
    cli = argparse.ArgumentParser(description="Listings and S3 event notifications.")
    for option, default in (("--objects", 10_000), ("--folders", 100), ("--new", 100)):
        cli.add_argument(option, type=int, default=default)
    arguments = cli.parse_args()
    os.environ.update(_KEYS)
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    store = Store()
    store.fill(arguments.objects, arguments.folders)
    with start_session() as spark:
        configure_store(spark, store)
        print("| new objects by | start | 10 idle seconds | new objects | s |\n|---|---|---|---|---|")
        for name in ("listings", "notifications"):
            measure(spark, store, name, arguments)
    store.server.stop()


def configure_store(spark: SparkSession, store: Store) -> None:
    """Let the session read the bucket."""
    hadoop: Any = spark._jsc.hadoopConfiguration()  # noqa: SLF001
    options = {"endpoint": store.address, "endpoint.region": REGION, "path.style.access": "true"}
    keys = {"access.key": "AKIDEXAMPLE", "secret.key": "example"}
    for key, value in {**options, **keys, "connection.ssl.enabled": "false"}.items():
        hadoop.set(f"fs.s3a.bucket.{BUCKET}.{key}", value)


if __name__ == "__main__":
    main()
