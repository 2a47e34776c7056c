"""Requirements of a benchmark, prepared once: bronze files, jars, Java, the DeltaStreamer."""

import json
import os
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import make_bronze
from benchmarks.headrace_moma import pipeline

from headrace.runtime.jars.jar_choice import list_coordinates
from headrace.runtime.jars.jar_locks import read_locks
from headrace.runtime.jars.resolution import resolve_jars
from headrace.runtime.java.installation import Java, find_java
from headrace.runtime.session.spark_support import spark_version

_POM = Path(__file__).with_name("hudi_streamer_pom.xml")
_STREAMER_SPARK = "3.4.4"


@dataclass(frozen=True)
class Streamer:
    """Location of the DeltaStreamer's Spark and jars."""

    spark_home: Path
    jars: Path


def bronze(moma: Path, work: Path, every: int) -> tuple[Path, dict[str, Any]]:
    """Make the bronze files; return their folder and manifest."""
    folder = work / f"bronze-{every}"
    if not (folder / "manifest.json").exists():
        print(f"making bronze files in {folder}", flush=True)
        make_bronze.make(moma, folder, every)
    manifest: dict[str, Any] = json.loads((folder / "manifest.json").read_text())
    return folder, manifest


def java() -> Java:
    """Return the Java that headrace finds; all variants run on it."""
    return find_java(spark_version())


def machine(jars: Iterable[Path]) -> str:
    """Describe the machine and the software of the measurement."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    names = ", ".join(jar.stem for jar in jars)
    return f"{os.cpu_count()} cores, {memory:.0f} GiB, Java {java().version}, PySpark {spark_version()}, {names}"


def jars(variant: str) -> list[Path]:
    """Return the jars of headrace's variant for a table format, from its cache; the variant by hand uses the same files."""
    version, plugins = spark_version(), pipeline(variant, Path("/")).plan.plugins
    return resolve_jars(
        list_coordinates(plugins, version), spark_version=version, locks=read_locks(plugins), report=print
    )


def streamer(work: Path) -> Streamer:
    """Install Spark in a separate venv, and fetch the jars with Maven."""
    venv, folder = work / f"venv-spark-{_STREAMER_SPARK}", work / "streamer-jars"
    if not (venv / "ready").exists():
        print(f"installing PySpark {_STREAMER_SPARK}", flush=True)
        subprocess.run([sys.executable, "-m", "venv", "--clear", venv], check=True)
        subprocess.run([venv / "bin" / "pip", "install", "--quiet", f"pyspark=={_STREAMER_SPARK}"], check=True)
        (venv / "ready").touch()
    if not (folder / "ready").exists():
        print("fetching the DeltaStreamer's jars", flush=True)
        subprocess.run(["mvn", "-q", "-B", "-f", _POM, f"-Djars={folder}", "package"], check=True)
        (folder / "ready").touch()
    return Streamer(next((venv / "lib").glob("python*/site-packages/pyspark")), folder)
