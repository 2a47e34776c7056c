"""Records per second from Kafka: Avro decoded, appended, merged into Iceberg; headrace against PySpark by hand.

    python -m benchmarks.sustained --work FOLDER [--records 6000000] [--repeat 3] [--only REGEX]

Kafka and a registry run on this machine. "By hand" is the shortest code for the task. "With care" adds the guarantees of headrace:
dead letters, counts, order by LSN and offset, keys of deletes without a previous row, and a search for unavailable values. Each
variant processes the same backlog in a fresh process, in batches of the same size. Two rates are reported: of the batches after the
first one, while the JVM warms up, and of the second half of the batches, as in a long stream.
"""

import argparse
import json
import re
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from io import BytesIO
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import fastavro
from benchmarks.run import SPARK
from confluent_kafka import Producer
from pyspark.sql import Column, DataFrame, Observation, SparkSession, Window, functions as F

from headrace import Pipeline
from headrace.sdk.sink import Batch, Capabilities, Sink, Table, WriteResult
from headrace_sinks import FilesSink, IcebergSink
from headrace_sources.formats.avro import AvroFormat
from headrace_sources.transports.kafka import KafkaSource
from headrace_stack import Kafka, SchemaRegistry
from headrace_transforms import Unwrap

TOPIC, BATCH = "bench.public.orders", 1_000_000
VARIANTS = (
    *("byhand-decode", "careful-decode", "headrace-decode"),
    *("byhand-append", "headrace-append"),
    *("byhand-upsert", "careful-upsert", "headrace-upsert"),
)
WINDOWS = ("after the first", "second half")
_ROW = [
    ("id", "int"),
    ("customer", "long"),
    ("name", "string"),
    ("email", "string"),
    ("status", "string"),
    ("price", {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2}),
    ("quantity", "int"),
    ("weight", "double"),
    ("paid", "boolean"),
    ("ordered", {"type": "long", "connect.name": "io.debezium.time.MicroTimestamp"}),
    ("due", {"type": "int", "connect.name": "io.debezium.time.Date"}),
    ("note", ["null", "string"]),
]
_SOURCE = [("connector", "string"), ("ts_ms", "long"), ("lsn", ["null", "long"]), ("sequence", ["null", "string"])]


def _record(name: str, fields: list[tuple[str, Any]]) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [{"name": field, "type": kind} for field, kind in fields]}


SCHEMA = {
    **_record("Envelope", [("before", ["null", _record("Value", _ROW)]), ("after", ["null", "Value"])]),
    "namespace": "bench.public.orders",
}
SCHEMA["fields"] += [{"name": "source", "type": _record("Source", _SOURCE)}, {"name": "op", "type": "string"}]
KEY = _record("Key", [("id", "int")])


def main() -> None:
    """Make the backlog, run the variants and print their times."""
    cli = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    cli.add_argument("--work", type=Path, required=True)
    cli.add_argument("--records", type=int, default=6_000_000)
    cli.add_argument("--repeat", type=int, default=3)
    cli.add_argument("--only", type=re.compile, default=re.compile(""))
    cli.add_argument("--child", nargs=3, metavar=("VARIANT", "BROKER", "REGISTRY"), help=argparse.SUPPRESS)
    arguments = cli.parse_args()
    if arguments.child:
        variant, broker, registry_url = arguments.child
        print(json.dumps(_time_variant(variant, broker, registry_url, arguments.work)))
        return
    arguments.work.mkdir(parents=True, exist_ok=True)
    times: dict[str, list[list[float]]] = {name: [] for name in VARIANTS if arguments.only.search(name)}
    with Kafka() as kafka, SchemaRegistry() as registry:
        _produce(kafka, registry, arguments.records)
        for _ in range(arguments.repeat):
            for variant, rounds in times.items():
                folder = arguments.work / variant
                shutil.rmtree(folder, ignore_errors=True)
                command = [sys.executable, "-m", "benchmarks.sustained", "--work", str(folder), "--child", variant]
                done = subprocess.run(
                    [*command, kafka.bootstrap_servers, registry.ccompat_url], check=True, stdout=subprocess.PIPE
                )
                result = json.loads(done.stdout.splitlines()[-1])
                rounds.append(result["batches"][: arguments.records // BATCH])
                rates = ", ".join(f"{window} {_rate(rounds[-1], window):,.0f}" for window in WINDOWS)
                print(f"{variant}: records/s {rates}; {result['rows']:,} rows", flush=True)
    print("\n| step | batches | by hand | headrace | ratio (lowest to highest) |\n|---|---|---|---|---|")
    for variant, rounds in times.items():
        who, step = variant.split("-")
        for window in WINDOWS if who != "headrace" and f"headrace-{step}" in times else ():
            pairs = [
                (_rate(a, window), _rate(b, window)) for a, b in zip(rounds, times[f"headrace-{step}"], strict=True)
            ]
            ratios = [b / a for a, b in pairs]
            by_hand, headrace = (statistics.median(rates) for rates in zip(*pairs, strict=True))
            print(
                f"| {step}{', with care' * (who == 'careful')} | {window} | {by_hand:,.0f} | {headrace:,.0f} | "
                f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f}) |"
            )


def _rate(batches: list[float], window: str) -> float:
    """Return records per second; ``batches`` are the end times of full batches."""
    skipped = 1 if window == "after the first" else len(batches) // 2
    return (len(batches) - skipped) * BATCH / (batches[-1] - batches[skipped - 1])


def _produce(kafka: Kafka, registry: SchemaRegistry, records: int) -> None:
    kafka.create_topic(TOPIC, partitions=2)
    writers = {}
    for part, schema in (("key", KEY), ("value", SCHEMA)):
        body = json.dumps({"schema": json.dumps(schema)}).encode()
        header = {"Content-Type": "application/vnd.schemaregistry.v1+json"}
        with urlopen(Request(f"{registry.ccompat_url}/subjects/{TOPIC}-{part}/versions", body, header)) as answer:  # noqa: S310
            writers[part] = (
                b"\0" + int(json.loads(answer.read())["id"]).to_bytes(4, "big"),
                fastavro.parse_schema(schema),
            )
    settings = {"bootstrap.servers": kafka.bootstrap_servers, "linger.ms": 20, "queue.buffering.max.messages": 200_000}
    with closing(Producer(settings)) as producer:
        for number, (key, value) in enumerate(_events(records)):
            texts = []
            for part, record in (("key", key), ("value", value)):
                out = BytesIO()
                out.write(writers[part][0])
                fastavro.schemaless_writer(out, writers[part][1], record)
                texts.append(out.getvalue())
            producer.produce(TOPIC, texts[1], texts[0])
            if number % 10_000 == 0:
                producer.poll(0)
        producer.flush()


def _events(records: int) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Yield events: seven of ten are inserts, three update an earlier row."""
    from decimal import Decimal

    rows = 0
    for lsn in range(records):
        insert = lsn % 10 < 7
        id_ = rows if insert else (lsn * 7919) % rows
        rows += insert
        row = {
            "id": id_,
            "customer": lsn % 9973,
            "name": f"customer number {lsn % 9973}",
            "email": f"customer{lsn % 9973}@example.com",
            "status": "new" if insert else "shipped",
            "price": Decimal(lsn % 100_000) / 100,
            "quantity": lsn % 17,
            "weight": lsn / 7,
            "paid": lsn % 2 == 0,
            "ordered": 1_767_323_045_000_000 + lsn,
            "due": 20_000 + lsn % 365,
            "note": None if lsn % 3 else "leave it with the neighbors",
        }
        source = {
            "connector": "postgresql",
            "ts_ms": 1_767_323_045_000 + lsn,
            "lsn": lsn,
            "sequence": f'["{lsn}","{lsn}"]',
        }
        yield {"id": id_}, {"before": None, "after": row, "source": source, "op": "c" if insert else "u"}


def _time_variant(variant: str, broker: str, registry: str, folder: Path) -> dict[str, Any]:
    who, step = variant.split("-")
    pipeline = _pipeline(step, broker, registry, folder)
    spark = pipeline.session()
    batches: list[float] = []
    if who == "headrace":
        pipeline.run(spark, on_progress=lambda _: batches.append(time.monotonic()))
    elif who == "careful":
        _with_care(spark, step, broker, registry, folder, batches)
    else:
        _by_hand(spark, step, broker, registry, folder, batches)
    if step == "decode":
        rows = 0
    elif step == "append":
        rows = spark.read.option("recursiveFileLookup", "true").parquet(str(folder / "out")).count()
    else:
        rows = pipeline.read(TOPIC, spark=spark).count() if who == "headrace" else spark.table("hand.db.orders").count()
    spark.stop()
    return {"batches": batches, "rows": rows}


class _Nothing(Sink):
    """Sink that reads every row and writes none."""

    name = "nothing"
    api_version = 1
    capabilities = Capabilities(single_pass=True)

    def write(self, table: Table, rows: DataFrame, batch: Batch) -> WriteResult:
        rows.write.format("noop").mode("append").save()
        return WriteResult()

    def read_back(self, spark: SparkSession, table: Table, as_of: str | None = None) -> DataFrame:
        raise NotImplementedError


def _pipeline(step: str, broker: str, registry: str, folder: Path) -> Pipeline:
    sinks: dict[str, Sink] = {
        "decode": _Nothing(),
        "append": FilesSink(path=str(folder / "out"), format="parquet"),
        "upsert": IcebergSink(warehouse=str(folder / "lake")),
    }
    catalog = "spark.sql.catalog.hand"
    return Pipeline(
        name="bench",
        source=KafkaSource({"bootstrap.servers": broker, "subscribe": TOPIC, "maxOffsetsPerTrigger": BATCH}),
        value=AvroFormat(registry=registry),
        transforms=[Unwrap({"delete.tombstone.handling.mode": "drop"} if step != "upsert" else {})],
        sinks=[sinks[step]],
        checkpoint=str(folder / "checkpoint"),
        spark={
            **SPARK,
            "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
            catalog: "org.apache.iceberg.spark.SparkCatalog",
            f"{catalog}.type": "hadoop",
            f"{catalog}.warehouse": str(folder / "hand"),
        },
    )


def _by_hand(spark: SparkSession, step: str, broker: str, registry: str, folder: Path, batches: list[float]) -> None:
    from pyspark.sql.avro.functions import from_avro

    schema = _schema(registry, "value")

    def apply(frame: DataFrame, batch: int) -> None:
        value = from_avro(F.expr("substring(value, 6)"), schema).alias("v")
        rows = frame.where("value is not null").select(value).where("v.op in ('r', 'c', 'u', 'd')")
        rows = rows.select(
            F.coalesce("v.after.id", "v.before.id").alias("id"),
            *_row_columns(),
            F.col("v.source.lsn").alias("_lsn"),
            F.col("v.op").alias("_op"),
        )
        if step == "decode":
            rows.write.format("noop").mode("append").save()
        elif step == "append":
            rows.write.mode("overwrite").parquet(str(folder / "out" / f"batch={batch}"))
        else:
            _merge(frame.sparkSession, rows)
        batches.append(time.monotonic())

    _stream(spark, broker, folder, apply)


def _with_care(spark: SparkSession, step: str, broker: str, registry: str, folder: Path, batches: list[float]) -> None:
    """Do the per-record work of headrace for one topic with known names and types."""
    from pyspark.sql.avro.functions import from_avro

    schemas = {part: _schema(registry, part) for part in ("key", "value")}

    def apply(frame: DataFrame, batch: int) -> None:
        options = {"mode": "PERMISSIVE"}
        parsed = frame.where("value is not null").select(
            *frame.columns,
            from_avro(F.expr("substring(key, 6)"), schemas["key"], options).alias("k"),
            from_avro(F.expr("substring(value, 6)"), schemas["value"], options).alias("v"),
        )
        texts = ", ".join(f"v.after.{name}" for name in ("name", "email", "status", "note"))
        unavailable = f"v.op <> 'r' and coalesce('__debezium_unavailable_value' in ({texts}), false)"
        parsed = parsed.withColumn(
            "bad", F.expr(f"v.op is null or coalesce(v.after.id, k.id) is null or ({unavailable})")
        )
        observation = Observation()
        times = {"newest": F.max("v.source.ts_ms"), "oldest": F.min("v.source.ts_ms")}
        counts = {"rows": F.count(F.lit(1)), "bad": F.count_if("bad"), **times}
        rows = parsed.observe(observation, *[column.alias(name) for name, column in counts.items()]).where("not bad")
        rows = rows.select(
            F.coalesce("v.after.id", "k.id").alias("id"),
            *_row_columns(),
            F.struct(F.col("v.source.lsn").alias("lsn"), F.col("offset")).alias("_lsn"),
            F.col("v.op").alias("_op"),
        )
        if step == "decode":
            rows.write.format("noop").mode("append").save()
        else:
            _merge(frame.sparkSession, rows)
        if observation.get["bad"]:
            bad = parsed.where("bad").select("key", "value", "topic", "partition", "offset")
            bad.write.mode("overwrite").parquet(str(folder / "dead" / f"batch={batch}"))
        batches.append(time.monotonic())

    _stream(spark, broker, folder, apply)


def _schema(registry: str, part: str) -> str:
    with urlopen(f"{registry}/subjects/{TOPIC}-{part}/versions/latest") as answer:  # noqa: S310
        return str(json.loads(answer.read())["schema"])


def _row_columns() -> list[Column]:
    """Return the columns of the row without its key."""
    plain = [name for name, _ in _ROW if name not in ("id", "ordered", "due")]
    ordered, due = F.timestamp_micros("v.after.ordered"), F.date_from_unix_date("v.after.due")
    return [*[F.col(f"v.after.{name}") for name in plain], ordered.alias("ordered"), due.alias("due")]


def _stream(spark: SparkSession, broker: str, folder: Path, apply: Callable[[DataFrame, int], None]) -> None:
    stream = spark.readStream.format("kafka").option("kafka.bootstrap.servers", broker).option("subscribe", TOPIC)
    stream = stream.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", BATCH)
    writer = stream.load().writeStream.foreachBatch(apply).option("checkpointLocation", str(folder / "checkpoint"))
    writer.trigger(availableNow=True).start().awaitTermination()


def _merge(spark: SparkSession, rows: DataFrame) -> None:
    newest_first = Window.partitionBy("id").orderBy(F.col("_lsn").desc())
    rows = rows.withColumn("_n", F.row_number().over(newest_first)).where("_n = 1").drop("_n")
    if not spark.catalog.tableExists("hand.db.orders"):
        writer = rows.where("_op <> 'd'").drop("_op").writeTo("hand.db.orders").tableProperty("format-version", "2")
        for action in ("merge", "update", "delete"):
            writer = writer.tableProperty(f"write.{action}.mode", "merge-on-read")
        writer.create()
        return
    rows.createOrReplaceTempView("changes")
    spark.sql(
        "MERGE INTO hand.db.orders t USING changes s ON t.id = s.id "
        "WHEN MATCHED AND s._op = 'd' AND s._lsn >= t._lsn THEN DELETE "
        "WHEN MATCHED AND s._lsn >= t._lsn THEN UPDATE SET * "
        "WHEN NOT MATCHED AND s._op <> 'd' THEN INSERT *"
    )


if __name__ == "__main__":
    main()
