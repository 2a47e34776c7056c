"""Sink ``s3`` against a plain ``df.write`` of the same rows: records per second and number of files.

::

    python benchmarks/s3_sink.py --work FOLDER          # a million records, five rounds
"""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from headrace.runtime.session.session_builder import build_session
from headrace.sdk import changes as C
from headrace.sdk.sink import Batch, Table
from headrace.spark.sessions import Sessions
from headrace_sinks.s3.s3_sink import S3Sink

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PARTITIONS = 4
FORMATS = ("avro", "json", "parquet")
#: Twelve columns of a table of orders.
COLUMNS = {
    "order_id": "id",
    "customer_id": "id % 99991",
    "item": "concat('item ', id % 977)",
    "note": "sha2(cast(id as string), 256)",
    "street": "concat(id % 311, ' Main Street')",
    "city": "concat('city ', id % 53)",
    "price": "cast(id % 10000 as decimal(10, 2))",
    "quantity": "cast(id % 17 as int)",
    "paid": "id % 3 = 0",
    "status": "element_at(array('new', 'paid', 'sent', 'done'), cast(id % 4 as int) + 1)",
    "created_at": "timestamp_millis(1437000000000 + id)",
    "updated_at": "timestamp_millis(1437000000000 + 2 * id)",
}


def make_records(session: SparkSession, count: int, folder: Path) -> DataFrame:
    """Make records of a topic with several partitions, as the engine passes them to the sink; read from Parquet each time."""
    from pyspark.sql import functions as F

    path = f"{folder}/records-{count}"
    if not Path(path).exists():
        session.range(count).select(
            *[F.expr(text).alias(name) for name, text in COLUMNS.items()],
            F.lpad(F.col("id").cast("string"), 12, "0").alias(C.POSITION),
            F.lit(False).alias(C.DELETED),
            F.lit("shop.public.orders").alias(C.TOPIC),
            F.expr(f"cast(id % {PARTITIONS} as int)").alias(C.PARTITION),
            F.expr(f"id div {PARTITIONS}").alias(C.OFFSET),
            F.lit(False).alias(C.TOMBSTONE),
        ).write.parquet(path)
    return session.read.parquet(path)


def write_plainly(records: DataFrame, file_format: str, folder: Path) -> None:
    """Write files with Spark's writer, without the guarantees of the sink."""
    records.select(*COLUMNS).write.format(file_format).save(str(folder))


def write_by_sink(records: DataFrame, file_format: str, flush_size: int, folder: Path) -> None:
    """Write one batch with the sink."""
    sink = S3Sink({"path": str(folder), "format": file_format, "flush.size": flush_size})
    sink.write(Table("orders"), records, Batch("benchmark", 0, "append"))


def measure(write: Callable[[Path], None], folder: Path) -> tuple[float, int]:
    """Return the seconds and the number of visible files."""
    shutil.rmtree(folder, ignore_errors=True)
    began = time.monotonic()
    write(folder)
    seconds = time.monotonic() - began
    files = [path for path in folder.rglob("*") if path.is_file() and not path.name.startswith((".", "_"))]
    return seconds, sum("_headrace" not in path.parts for path in files)


def run(count: int, flush_sizes: Sequence[int], rounds: int, work: Path) -> list[str]:
    """Return the rows of the report."""
    conf = {"spark.master": "local[2]", "spark.driver.memory": "4g", "spark.sql.shuffle.partitions": "4"}
    session = build_session([S3Sink({"path": str(work), "flush.size": 1})], conf)
    session = Sessions(session, S3Sink.sql_conf).of("benchmark")
    records = make_records(session, count, work)
    times: defaultdict[tuple[str, str], list[float]] = defaultdict(list)
    files = {}
    for number in range(rounds + 1):
        for file_format in FORMATS:
            variants: dict[str, Callable[[Path], None]] = {
                "df.write": lambda folder, f=file_format: write_plainly(records, f, folder),  # type: ignore[misc]
                **{
                    f"s3, {size:,}": lambda folder, f=file_format, s=size: write_by_sink(records, f, s, folder)  # type: ignore[misc]
                    for size in flush_sizes
                },
            }
            for name, write in variants.items():
                seconds, files[file_format, name] = measure(write, work / "out")
                if number:  # the first round compiles
                    times[file_format, name].append(count / seconds)
    lines = []
    for (file_format, name), rates in times.items():
        ratio = median(rates) / median(times[file_format, "df.write"])
        lines.append(f"| {file_format} | {name} | {files[file_format, name]} | {median(rates):,.0f} | {ratio:.2f} |")
    return lines


def main(arguments: Sequence[str]) -> None:
    """Read the command line and print the report."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--work", type=Path, required=True, help="a folder for a gigabyte")
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--flush-size", type=int, nargs="+", default=[100_000, 10_000, 1_000])
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args(arguments)
    options.work.mkdir(parents=True, exist_ok=True)
    lines = ["| format | written by, `flush.size` | files | records/s | of df.write |", "|---|---|---|---|---|"]
    lines += run(options.records, options.flush_size, options.rounds, options.work)
    print("\n".join(lines))


if __name__ == "__main__":
    main(sys.argv[1:])
