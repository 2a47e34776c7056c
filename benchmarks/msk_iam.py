"""Records per second from a broker with IAM authentication and TLS, against the plaintext listener of the same broker.

::

    python -m benchmarks.msk_iam --work FOLDER [--records 1000000] [--repeat 5]

The broker is `headrace_stack.Msk`, which verifies signatures. Spark reads a full topic on two cores without a sink, through both
listeners in turn. The topic has four partitions and records of 500 bytes.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from confluent_kafka import Producer

from headrace import Pipeline
from headrace_aws.msk.msk_iam import MskIam
from headrace_stack import Msk

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TOPIC, PARTITIONS, RECORD = "orders", 4, 500
REGION = "eu-west-1"


class WarmMsk(Msk):
    """Broker with Java's optimizing compiler, which uses the encryption instructions of the processor."""

    def command(self) -> Sequence[str | Path]:
        return [part for part in super().command() if part != "-XX:TieredStopAtLevel=1"]


def fill(msk: Msk, records: int) -> None:
    """Produce incompressible records."""
    msk.create_topic(TOPIC, PARTITIONS)
    producer = Producer({"bootstrap.servers": msk.bootstrap_servers, "linger.ms": 50})
    for number in range(records):
        producer.produce(TOPIC, os.urandom(RECORD), partition=number % PARTITIONS)
        if number % 10_000 == 0:
            producer.flush()
    producer.flush()


def make_session(msk: Msk, work: Path) -> SparkSession:
    """Return a session with the jars of source and authentication."""
    config = {
        "name": "msk",
        "source": {
            "kafka": {
                "bootstrap.servers": msk.iam.bootstrap_servers,
                "subscribe": TOPIC,
                "auth": {"msk-iam": {"region": REGION}},
            },
            "value": "json",
        },
        "sink": {"files": {"path": str(work / "none")}},
        "checkpoint": str(work / "checkpoint"),
        "spark": {"spark.master": "local[2]"},
    }
    return Pipeline.from_dict(config).session()


def time_reading(spark: SparkSession, options: Mapping[str, str], records: int) -> float:
    """Return records per second."""
    frame = spark.read.format("kafka").options(subscribe=TOPIC, startingOffsets="earliest", **options).load()
    began = time.monotonic()
    frame.write.format("noop").mode("overwrite").save()
    return records / (time.monotonic() - began)


def main() -> None:
    """Print a line of JSON."""
    cli = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    cli.add_argument("--work", type=Path, required=True)
    cli.add_argument("--records", type=int, default=1_000_000)
    cli.add_argument("--repeat", type=int, default=5)
    arguments = cli.parse_args()
    shutil.rmtree(arguments.work, ignore_errors=True)
    with WarmMsk() as msk:
        os.environ.update({**msk.issue_key().environment, "AWS_REGION": REGION})
        fill(msk, arguments.records)
        spark = make_session(msk, arguments.work)
        login = MskIam({"region": REGION}).client_options(msk.iam.bootstrap_servers)
        ways = {
            "plaintext": {"bootstrap.servers": msk.bootstrap_servers},
            "msk-iam": {
                "bootstrap.servers": msk.iam.bootstrap_servers,
                "ssl.truststore.type": "PEM",
                "ssl.truststore.location": str(msk.iam.ca),
                **login,
            },
        }
        rounds = []
        for _ in range(arguments.repeat + 2):
            rates = {
                name: time_reading(spark, {f"kafka.{key}": value for key, value in way.items()}, arguments.records)
                for name, way in ways.items()
            }
            rounds.append((rates["plaintext"], rates["msk-iam"], rates["msk-iam"] / rates["plaintext"]))
        # The first two rounds warm up.
        plain, iam, ratio = zip(*rounds[2:], strict=True)
        found = {"plaintext": round(median(plain)), "msk-iam": round(median(iam))}
        ratios = [round(value, 2) for value in (median(ratio), min(ratio), max(ratio))]
        print(json.dumps({"records/s": found, "ratios": ratios, "logins": msk.count_logins("AWS_MSK_IAM")}))


if __name__ == "__main__":
    main()
