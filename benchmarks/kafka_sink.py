"""Sink ``kafka`` against Spark's own Kafka writer with the same rows: records per second.

::

    python -m benchmarks.kafka_sink --work FOLDER [--records 500000] [--rounds 3]

A broker and a registry run on this machine. In each round, both write each format in turn, each into a new topic. The plain job makes its
records with ``to_json`` or ``to_avro``. It neither keeps the order of the records of a key nor registers a schema.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from benchmarks.s3_sink import COLUMNS, PARTITIONS, make_records

from headrace.runtime.session.session_builder import build_session
from headrace.sdk.sink import Batch, Table
from headrace_sinks.connect_json import describe_schema
from headrace_sinks.kafka.kafka_sink import KafkaSink
from headrace_stack import Kafka, SchemaRegistry

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

KEY = "order_id"
FORMATS = ("json", "json with schemas", "avro")
#: Rounds in which Java compiles its code. They are not counted.
WARM_UP = 1


class WarmKafka(Kafka):
    """Broker with Java's optimizing compiler, which removes the files of a deleted topic soon."""

    def __init__(self) -> None:
        super().__init__(config={"log.segment.delete.delay.ms": "500"})

    def command(self) -> Sequence[str | Path]:
        return [part for part in super().command() if part != "-XX:TieredStopAtLevel=1"]


def make_sink(record_format: str, broker: str, registry: str) -> KafkaSink:
    """Return a sink with the options of a format."""
    options: dict[str, Any] = {"bootstrap.servers": broker}
    if record_format == "avro":
        options |= {"keys.format": "avro", "value.format": "avro", "registry": registry}
    elif record_format == "json":
        options |= {f"{part}.converter.schemas.enable": False for part in ("key", "value")}
    return KafkaSink(options)


def write_by_sink(sink: KafkaSink, records: DataFrame, topic: str) -> None:
    """Write one batch with the sink."""
    sink.write(Table(topic, (KEY,)), records, Batch("benchmark", 0, "append"))


def write_plainly(records: DataFrame, record_format: str, topic: str, broker: str) -> None:
    """Write the rows with Spark's writer."""

    def encode(*names: str) -> Column:
        from pyspark.sql import functions as F
        from pyspark.sql.avro.functions import to_avro

        row = F.struct(*names)
        if record_format == "avro":
            return F.concat(F.lit(b"\0\0\0\0\1"), to_avro(row))
        if record_format == "json":
            return F.to_json(row)
        schema = json.dumps(describe_schema(records.select(*names).schema), separators=(",", ":"))
        return F.concat(F.lit(f'{{"schema":{schema},"payload":'), F.to_json(row), F.lit("}"))

    rows = records.select(encode(KEY).alias("key"), encode(*COLUMNS).alias("value"))
    rows.write.format("kafka").option("kafka.bootstrap.servers", broker).option("topic", topic).save()


def measure(kafka: Kafka, registry: SchemaRegistry, count: int, rounds: int, work: Path) -> list[dict[str, Any]]:
    """Return the figures of each format."""
    broker = kafka.bootstrap_servers
    sinks = {name: make_sink(name, broker, registry.ccompat_url) for name in FORMATS}
    conf = {"spark.master": "local[2]", "spark.driver.memory": "4g"}
    records = make_records(build_session([sinks["avro"]], conf), count, work)
    rates: defaultdict[tuple[str, str], list[float]] = defaultdict(list)
    for number in range(rounds + WARM_UP):
        for name, sink in sinks.items():
            for writer in ("Spark", "headrace"):
                topic = f"{writer}.{name.replace(' ', '_')}.{number}"
                kafka.create_topic(topic, PARTITIONS)
                began = time.monotonic()
                if writer == "Spark":
                    write_plainly(records, name, topic, broker)
                else:
                    write_by_sink(sink, records, topic)
                rates[name, writer].append(count / (time.monotonic() - began))
                assert sum(kafka.end_offsets(topic).values()) == count
                kafka.delete_topic(topic)
    return [describe(name, *(rates[name, writer][WARM_UP:] for writer in ("Spark", "headrace"))) for name in FORMATS]


def describe(record_format: str, plain: Sequence[float], by_sink: Sequence[float]) -> dict[str, Any]:
    """Return medians, and the median, lowest and highest ratio of a round."""
    ratios = [ours / theirs for ours, theirs in zip(by_sink, plain, strict=True)]
    return {
        "format": record_format,
        "Spark records/s": round(median(plain)),
        "headrace records/s": round(median(by_sink)),
        "ratios": [round(ratio, 2) for ratio in (median(ratios), min(ratios), max(ratios))],
        "load": os.getloadavg()[0],
    }


def main() -> None:
    """Print a line of JSON for each format."""
    cli = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    cli.add_argument("--work", type=Path, required=True)
    cli.add_argument("--records", type=int, default=500_000)
    cli.add_argument("--rounds", type=int, default=3)
    arguments = cli.parse_args()
    shutil.rmtree(arguments.work, ignore_errors=True)
    arguments.work.mkdir(parents=True)
    with WarmKafka() as kafka, SchemaRegistry() as registry:
        for found in measure(kafka, registry, arguments.records, arguments.rounds, arguments.work):
            print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
