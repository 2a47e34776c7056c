"""Variant of Hudi's DeltaStreamer (HoodieStreamer 0.14.0 on Spark 3.4) on the unwrapped events.

    python -m benchmarks.hudi_streamer VARIANT --spark-home FOLDER --jars FOLDER --bronze FOLDER --folder FOLDER ...

VARIANT: streamer-mor             three runs, each with the files and the schema file of its step
         streamer-mor-continuous  one JVM that polls; a step is its files' arrival to its commit
"""

import argparse
import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.run import KEY, SPARK, STEPS, Run

VERSION = "0.14.0"
_CLASS = "org.apache.hudi.utilities.streamer.HoodieStreamer"
_POLL_S = 0.02
_PATIENCE_S = 300

_SPARK = {
    **SPARK,
    "spark.ui.enabled": "false",
    "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
}
_HUDI = {
    "hoodie.datasource.write.recordkey.field": KEY,
    "hoodie.datasource.write.partitionpath.field": "",
    "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.NonpartitionedKeyGenerator",
    **{f"hoodie.{action}.shuffle.parallelism": "2" for action in ("upsert", "insert", "delete", "bulkinsert")},
}


def command(run: Run, schema_step: str, arguments: argparse.Namespace) -> list[str]:
    """Return the command line of the streamer. It reads with the schema of the file that its properties name."""
    properties = run.folder / f"{schema_step}.properties"
    hudi = {
        **_HUDI,
        "hoodie.deltastreamer.source.dfs.root": run.landing,
        "hoodie.deltastreamer.schemaprovider.source.schema.file": run.bronze / "schemas" / f"flat_{schema_step}.avsc",
    }
    properties.write_text("".join(f"{key}={value}\n" for key, value in hudi.items()))
    return [
        str(arguments.spark_home / "bin" / "spark-submit"),
        *(text for key, value in _SPARK.items() for text in ("--conf", f"{key}={value}")),
        *("--jars", str(arguments.jars / f"hudi-spark3.4-bundle_2.12-{VERSION}.jar")),
        *("--class", _CLASS, str(arguments.jars / f"hudi-utilities-relocated-{VERSION}.jar")),
        *("--table-type", "MERGE_ON_READ", "--op", "UPSERT", "--source-ordering-field", "__lsn"),
        *("--target-table", "artworks", "--target-base-path", str(run.table)),
        *("--source-class", "org.apache.hudi.utilities.sources.AvroDFSSource"),
        *("--schemaprovider-class", "org.apache.hudi.utilities.schema.FilebasedSchemaProvider"),
        *("--props", f"file://{properties}"),
    ]


def plain(run: Run, arguments: argparse.Namespace) -> None:
    """Start one run per step."""
    for step in STEPS:
        run.land("flat", step)
        with run.time_step(step):
            subprocess.run(command(run, step, arguments), check=True)


def continuous(run: Run, arguments: argparse.Namespace) -> None:
    """Start one continuous run with the newest schema and deliver the steps to it."""
    run.landing.mkdir(parents=True)
    polling = [*command(run, STEPS[-1], arguments), "--continuous", "--min-sync-interval-seconds", "0"]
    streamer = subprocess.Popen(polling)
    try:
        # Its first round commits even without input.
        _until(lambda: commits(run.table) > 0, streamer)
        run.note_start()
        for step in STEPS:
            arriving, before = run.folder / step, commits(run.table)
            arriving.mkdir()
            for file in run.files("flat", step).iterdir():
                (arriving / file.name).hardlink_to(file)
            with run.time_step(step):
                # One rename, so that the streamer never reads a part of a step.
                arriving.rename(run.landing / step)
                _until(lambda before=before: commits(run.table) > before, streamer)  # type: ignore[misc]
    finally:
        streamer.terminate()
        streamer.wait(60)


def commits(table: Path) -> int:
    """Return the number of completed commits of the table."""
    return sum(file.stat().st_size > 0 for file in (table / ".hoodie").glob("*.deltacommit"))


def _until(reached: Callable[[], bool], streamer: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    while not reached():
        if streamer.poll() is not None:
            raise SystemExit(f"the streamer exited with status {streamer.returncode}")
        if time.monotonic() > deadline:
            raise SystemExit(f"no commit in {_PATIENCE_S} s")
        time.sleep(_POLL_S)


def main() -> None:
    """Apply the three steps."""
    cli = Run.command_line()
    cli.add_argument("--spark-home", type=Path, required=True)
    cli.add_argument("--jars", type=Path, required=True)
    arguments = cli.parse_args()
    run = Run.from_arguments(arguments)
    os.environ["SPARK_HOME"] = str(arguments.spark_home)
    (continuous if run.variant.endswith("-continuous") else plain)(run, arguments)


if __name__ == "__main__":
    main()
