"""Cost of S3A with the few jars of ``s3a://``, and with the bundle on which Hadoop depends.

    python benchmarks/s3a.py [--rounds 3] [--megabytes 200]

Each round is one process per set of jars, against an S3 server on this machine. It measures the time from exec to a session and to
the first response of S3, and then writes and reads a file as a stream.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

from headrace.runtime.jars.jar_choice import list_coordinates
from headrace.runtime.jars.jar_locks import read_locks
from headrace.runtime.jars.resolution import resolve_jars
from headrace.runtime.session.spark_support import spark_line, spark_version
from headrace_aws.s3a.s3a_file_system import S3A
from headrace_stack import S3

_BUNDLE = {"3.5": "org.apache.hadoop:hadoop-aws:3.3.4", "4.1": "org.apache.hadoop:hadoop-aws:3.4.2"}
_FIGURES = ("session s", "first answer s", "write MB/s", "read MB/s")


def find_jars() -> dict[str, list[Path]]:
    """Return name of a set → its jars; fetch missing jars."""
    line, version = spark_line(spark_version()), spark_version()
    few = resolve_jars(list_coordinates([S3A()], version), spark_version=version, locks=read_locks([S3A]))
    return {"few jars": few, "bundle": resolve_jars([_BUNDLE[line]], spark_version=version)}


def measure(jars: list[Path], options: dict[str, str], megabytes: int, started: float) -> dict[str, float]:
    """Return the figures of this process, which started at ``started``."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.driver.extraClassPath", os.pathsep.join(map(str, jars)))
    for key, value in options.items():
        builder = builder.config(f"spark.hadoop.{key}", value)
    spark = builder.getOrCreate()
    clock = time.time()
    figures = {"session s": clock - started}
    jvm: Any = spark._jvm  # noqa: SLF001
    path = jvm.org.apache.hadoop.fs.Path(f"s3a://lake/{os.getpid()}")
    files = path.getFileSystem(spark._jsc.hadoopConfiguration())  # noqa: SLF001
    files.exists(path)
    figures["first answer s"] = time.time() - clock
    for name, copy in (("write MB/s", _write), ("read MB/s", _read)):
        clock = time.time()
        copy(jvm, files, path, megabytes)
        figures[name] = megabytes / (time.time() - clock)
    spark.stop()
    return figures


def _write(jvm: Any, files: Any, path: Any, megabytes: int) -> None:
    zeros = jvm.java.io.FileInputStream("/dev/zero")
    source = jvm.org.apache.commons.io.input.BoundedInputStream(zeros, megabytes << 20)
    target = files.create(path, True)
    jvm.org.apache.commons.io.IOUtils.copyLarge(source, target)
    target.close()


def _read(jvm: Any, files: Any, path: Any, megabytes: int) -> None:
    source = files.open(path)
    target = jvm.java.io.FileOutputStream("/dev/null")
    assert jvm.org.apache.commons.io.IOUtils.copyLarge(source, target) == megabytes << 20
    source.close()


def main() -> None:
    """Run both sets in turn, round by round, and print the table."""
    cli = argparse.ArgumentParser(description="S3A with few jars and with the bundle.")
    cli.add_argument("--rounds", type=int, default=3)
    cli.add_argument("--megabytes", type=int, default=200)
    cli.add_argument("--one", help=argparse.SUPPRESS)
    given = cli.parse_args()
    if given.one:
        task = json.loads(given.one)
        jars = [Path(jar) for jar in task["jars"]]
        print(json.dumps(measure(jars, task["options"], given.megabytes, task["started"])))
        return
    sets = find_jars()
    took: dict[str, list[dict[str, float]]] = {name: [] for name in sets}
    with S3() as s3:
        s3.create_bucket("lake")
        environment = {**os.environ, **s3.environment}
        for _ in range(given.rounds):
            for name, jars in sets.items():
                task = {"jars": [*map(str, jars)], "options": {**s3.hadoop_options}, "started": time.time()}
                command = [sys.executable, __file__, "--one", json.dumps(task), "--megabytes", str(given.megabytes)]
                done = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True)
                took[name].append(json.loads(done.stdout.splitlines()[-1]))
    print(
        f"| {given.rounds} rounds, medians | jars | MB | {' | '.join(_FIGURES)} |\n|---|---|---|{'---|' * len(_FIGURES)}"
    )
    for name, jars in sets.items():
        size = sum(jar.stat().st_size for jar in jars) / 1e6
        figures = " | ".join(f"{median(one[figure] for one in took[name]):,.1f}" for figure in _FIGURES)
        print(f"| {name} | {len(jars)} | {size:,.1f} | {figures} |")


if __name__ == "__main__":
    main()
