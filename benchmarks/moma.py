"""Museum's full history into Iceberg, Hudi and Delta: headrace against PySpark by hand and Hudi's DeltaStreamer.

    python benchmarks/moma.py --moma FOLDER --work FOLDER [--every N] [--repeat 3] [--only REGEX]

METHOD.md in this folder describes the measurement.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks import prepare
from benchmarks.report import report
from benchmarks.results import Check, Result, append, read
from benchmarks.run import STEPS, Run

ROOT = Path(__file__).resolve().parent.parent
VARIANTS = (
    "headrace-iceberg-mor",
    "byhand-iceberg-mor",
    "headrace-hudi-mor",
    "byhand-hudi-mor-bucket",
    "byhand-hudi-mor-bucket-nometa",
    "streamer-mor",
    "streamer-mor-continuous",
    "headrace-delta",
    "byhand-delta",
)


def parse_arguments(texts: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse the command line."""
    cli = argparse.ArgumentParser(description="headrace against alternatives, on the museum's history.")
    cli.add_argument("--moma", type=Path, required=True, metavar="FOLDER", help="the museum's files")
    cli.add_argument("--work", type=Path, required=True, metavar="FOLDER", help="folder of all output; 3 GB")
    cli.add_argument("--every", type=int, default=1, metavar="N", help="keep one artwork in N")
    cli.add_argument("--repeat", type=int, default=3, metavar="N", help="rounds; in each every variant runs once")
    cli.add_argument("--only", type=re.compile, default=re.compile(""), metavar="REGEX", help="variants that match")
    options = cli.parse_args(texts)
    if not select_variants(options.only):
        cli.error(f"--only matches none of {', '.join(VARIANTS)}")
    return options


def select_variants(only: re.Pattern[str]) -> list[str]:
    """Return the matching variants."""
    return [variant for variant in VARIANTS if only.search(variant)]


@dataclass(frozen=True)
class MomaBenchmark:
    """Prepared benchmark with its own ``folder``."""

    folder: Path
    bronze: Path
    environment: dict[str, str]
    jars: dict[str, list[Path]]
    streamer: prepare.Streamer | None

    @property
    def all_jars(self) -> list[Path]:
        """Jars of all table formats."""
        return sorted({jar for jars in self.jars.values() for jar in jars})

    def run(self, variant: str, number: int) -> Run:
        """Return the files of a variant's run in a round."""
        folder = self.folder / "runs" / f"{variant}-{number}"
        return Run(variant, number, self.bronze, folder, self.folder / "results.jsonl")

    def command(self, run: Run) -> list[str]:
        """Return the command of a variant."""
        program, extra = run.variant.partition("-")[0], list[str]()
        if program == "byhand":
            same_format = next(ours for ours in self.jars if ours.split("-")[1] == run.variant.split("-")[1])
            extra = ["--jars", ",".join(map(str, self.jars[same_format]))]
        elif program == "streamer":
            assert self.streamer
            extra = ["--spark-home", str(self.streamer.spark_home), "--jars", str(self.streamer.jars)]
        module = {"headrace": "headrace_moma", "byhand": "byhand", "streamer": "hudi_streamer"}[program]
        return [sys.executable, "-m", f"benchmarks.{module}", *run.arguments(), *extra]

    def measure(self, run: Run) -> int:
        """Run a variant with its output in a file; return its exit code."""
        run.folder.mkdir(parents=True)
        # Pending writes of the last run must not affect this measurement.
        os.sync()
        watch = [sys.executable, "-m", "benchmarks.measure", str(run.results), run.variant, str(run.round), "--"]
        with (run.folder / "log").open("wb") as log:
            return subprocess.run(
                [*watch, *self.command(run)], cwd=run.folder, env=self.environment, stdout=log, stderr=log, check=False
            ).returncode


def prepare_bench(work: Path, bronze: Path, variants: Sequence[str]) -> MomaBenchmark:
    """Fetch the requirements of the variants."""
    environment = {key: value for key, value in os.environ.items() if key != "SPARK_HOME"}
    environment |= {"JAVA_HOME": str(prepare.java().home), "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(ROOT)}
    environment["SPARK_LOCAL_IP"] = "127.0.0.1"
    folder = work / time.strftime("run-%Y%m%d-%H%M%S")
    folder.mkdir()
    # The verification requires all jars.
    jars = {variant: prepare.jars(variant) for variant in VARIANTS if variant.startswith("headrace")}
    needs_streamer = any(variant.startswith("streamer") for variant in variants)
    return MomaBenchmark(folder, bronze, environment, jars, prepare.streamer(work) if needs_streamer else None)


def verify_runs(bench: MomaBenchmark, runs: Sequence[Run]) -> None:
    """Compare the tables with the truth and remove correct ones."""
    from benchmarks.verify import session, verify
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    os.environ.update(bench.environment)
    os.chdir(bench.folder)
    spark = session(bench.all_jars)
    for run in runs:
        try:
            check = verify(spark, run, bench.bronze / "truth" / f"{STEPS[-1]}.jsonl.gz")
        except (PySparkException, Py4JError) as error:
            print(f"          {run.table} cannot be read: {str(error).splitlines()[0]}", flush=True)
            continue
        append(bench.folder / "checks.jsonl", check)
        if check.right:
            shutil.rmtree(run.lake)
    spark.stop()


def main() -> int:
    """Run, verify, report."""
    options = parse_arguments()
    variants, work = select_variants(options.only), options.work.resolve()
    work.mkdir(parents=True, exist_ok=True)
    bronze, manifest = prepare.bronze(options.moma, work, options.every)
    bench = prepare_bench(work, bronze, variants)
    done = []
    for number in range(1, options.repeat + 1):
        for variant in variants:
            run = bench.run(variant, number)
            print(f"{time.strftime('%H:%M:%S')}  round {number}  {variant}", flush=True)
            if bench.measure(run):
                print(f"          FAILED: see {run.folder / 'log'}", flush=True)
            else:
                done.append(run)
    print(f"{time.strftime('%H:%M:%S')}  verifying", flush=True)
    verify_runs(bench, done)
    checks = read(bench.folder / "checks.jsonl", Check)
    changes = {step: facts["events"] for step, facts in manifest["steps"].items()}
    text = report(read(bench.folder / "results.jsonl", Result), checks, changes)
    text = f"{prepare.machine(bench.all_jars)}. 1 artwork in {options.every}.\n{text}"
    (bench.folder / "report.md").write_text(text, encoding="utf-8")
    print(f"\nResults are in {bench.folder}\n\n{text}")
    everything = len(variants) * options.repeat
    return 0 if sum(check.right for check in checks) == everything else 1


if __name__ == "__main__":
    sys.exit(main())
