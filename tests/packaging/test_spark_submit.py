"""Packages on a Spark standalone cluster, with a Python that has only PySpark."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from operator import itemgetter
from pathlib import Path

import pyarrow.parquet
import pyspark
import pytest
from tests.support.cluster import make_bare_python, make_package, start_cluster, submitter_environment
from tests.support.dist import ROOT, run
from tests.support.pages import find_block

from headrace.runtime.jars.jar_choice import choose_jars
from headrace.runtime.jars.jar_locks import read_locks
from headrace.runtime.jars.resolution import resolve_jars
from headrace_sinks import IcebergSink
from headrace_stack import Kinesis

pytestmark = [pytest.mark.dist, pytest.mark.spark, pytest.mark.slow, pytest.mark.one_spark]

CANARY = "canary-7f3a91c2-pepper"
STREAM = "shop.public.orders"
FILES = {"files": {"path": str(ROOT / "tests/data/msk_demo/envelope"), "format": "avro"}}


@pytest.fixture(scope="module")
def shell(kinesis: Kinesis, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Start a cluster and yield the environment of the submitting shell."""
    python = make_bare_python(tmp_path_factory.mktemp("bare") / "venv")
    with start_cluster(kinesis.environment) as master:
        yield {**submitter_environment(master, python), **kinesis.environment, "SALT": CANARY}


def submit(folder: Path, shell: dict[str, str]) -> str:
    """Run the package from another folder; return its stdout."""
    result = run([folder / "package/submit.sh", "--available-now"], folder, environment=shell)
    assert CANARY not in result.stdout + result.stderr
    return result.stdout


@pytest.mark.nightly
def test_files_become_an_iceberg_table(tmp_path: Path, shell: dict[str, str]) -> None:
    config = {
        "source": FILES,
        "tables": [{"source": "moma.public.artists", "key": ["artist_id"], "target": "moma.artists"}],
        "transforms": [{"unwrap": {}}, {"mask": {"columns": {"name": {"sha256": {"salt": "${env:SALT}"}}}}}],
        "sink": {"iceberg": {"warehouse": str(tmp_path / "lake")}},
    }
    make_package(tmp_path, CANARY, config)
    assert "moma.artists → iceberg: 900 rows in, 900 applied" in submit(tmp_path, shell)
    table = pyarrow.parquet.read_table(tmp_path / "lake/moma/artists/data").to_pylist()
    assert len({row["artist_id"] for row in table}) == len(table) == 900
    assert {len(row["name"]) for row in table} == {64}


@pytest.mark.nightly
def test_executors_read_stream_with_modules_of_the_package(
    tmp_path: Path, shell: dict[str, str], kinesis: Kinesis
) -> None:
    kinesis.create_stream(STREAM, shards=2)
    orders = [{"id": number, "name": f"order {number}"} for number in range(20)]
    kinesis.put(STREAM, *((json.dumps({"id": order["id"]}), json.dumps(order).encode()) for order in orders))
    config = {
        "source": {"kinesis": {"stream": STREAM, "endpoint.url": kinesis.endpoint_url}, "value": {"json": {}}},
        "sink": {"files": {"path": str(tmp_path / "rows")}},
    }
    make_package(tmp_path, CANARY, config)
    assert f"{STREAM} → files: 20 rows in" in submit(tmp_path, shell)
    files = (tmp_path / "rows").rglob("part-*.json")
    rows = [json.loads(line) for file in files for line in file.read_text(encoding="utf-8").splitlines()]
    assert sorted(({"id": row["id"], "name": row["name"]} for row in rows), key=itemgetter("id")) == orders


@pytest.mark.nightly
def test_error_names_jars_that_spark_submit_did_not_get(tmp_path: Path, shell: dict[str, str]) -> None:
    """The program finds headrace in the package next to it, without an unpacked archive."""
    make_package(tmp_path, CANARY, {"source": FILES, "sink": {"iceberg": {"warehouse": str(tmp_path / "lake")}}})
    command: list[str | Path] = [
        "spark-submit",
        "--master",
        "local[1]",
        tmp_path / "package/main.py",
        "--available-now",
    ]
    # spark-submit writes both stdout and stderr of a program to stdout.
    printed = run(command, tmp_path, environment=shell, ok=3).stdout
    (line,) = [line for line in printed.splitlines() if "error: spark-submit was started without the jars of" in line]
    assert "org.apache.iceberg:iceberg-spark-runtime-3.5_2.12:" in line
    assert CANARY not in printed


@pytest.mark.nightly
def test_script_of_glue_job_runs(tmp_path: Path, shell: dict[str, str]) -> None:
    """spark-submit replaces Glue and gets the options of the job parameters. headrace is installed."""
    config = {
        "source": FILES,
        "tables": [{"source": "moma.public.artists", "key": ["artist_id"], "target": "moma.artists"}],
        "transforms": [{"unwrap": {}}],
        "sink": {"iceberg": {"warehouse": str(tmp_path / "lake")}},
    }
    make_package(tmp_path, CANARY, config)
    script = tmp_path / "job.py"
    script.write_text(find_block("docs/spark-submit.md", "python", "Pipeline.from_file"), encoding="utf-8")
    jars = ",".join(map(str, sorted((tmp_path / "package/jars").iterdir())))
    command: list[str | Path] = ["spark-submit", "--master", "local[1]", "--jars", jars, script]
    python = {"PYSPARK_PYTHON": sys.executable, "PYTHONPATH": os.pathsep.join(sys.path)}
    # Glue copies `--extra-files` to the working directory of the script.
    run(command, tmp_path / "package", environment={**shell, **python})
    table = pyarrow.parquet.read_table(tmp_path / "lake/moma/artists/data").to_pylist()
    assert len({row["artist_id"] for row in table}) == len(table) == 900


@pytest.mark.nightly
def test_application_with_its_own_session_catalog_and_listener(tmp_path: Path, shell: dict[str, str]) -> None:
    """The application runs two pipelines and a Spark query at the same time."""
    jars = resolve_jars(
        choose_jars(IcebergSink, pyspark.__version__),
        spark_version=pyspark.__version__,
        locks=read_locks([IcebergSink]),
    )
    master = ("--master", "local[2]", "--driver-memory", "1g", "--jars", ",".join(map(str, jars)))
    command: list[str | Path] = ["spark-submit", *master, ROOT / "examples/embedding/application.py", tmp_path]
    python = {"PYSPARK_PYTHON": sys.executable, "PYTHONPATH": os.pathsep.join(sys.path)}
    printed = run(command, tmp_path, environment={**shell, **python}).stdout
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in printed.splitlines() if line.startswith("|")]
    assert rows == [
        ["title", "name", "country", "visitors"],
        ["Cut with the Kitchen Knife", "Hannah Höch", "Germany", "150"],
        ["Vertical-Horizontal Composition, 1916", "Sophie Taeuber", "Switzerland", "95"],
        ["Collage of Squares", "Jean Arp", "France", "80"],
    ]
    assert {"visits began", "artists began", "works began"} <= set(printed.splitlines())
    assert printed.count("a query ended: no error") == 3
    artists = pyarrow.parquet.read_table(tmp_path / "lake/public/artists/data").to_pylist()
    assert sorted(row["id"] for row in artists) == [1, 2, 3]
