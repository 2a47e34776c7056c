"""Packages on YARN, EMR Serverless and Kubernetes, submitted with the commands of the documentation.

YARN is real. AWS and Kubernetes are not available here, so the tests compare the requests to them with the settings that the
package's own command passes to ``spark-submit``. test_spark_submit.py and the test on YARN run that command.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, Self

import pyarrow.parquet
import pyspark
import pytest
import yaml
from botocore.session import get_session
from botocore.validate import ParamValidator
from tests.support.cluster import make_bare_python, make_package
from tests.support.dist import ROOT, run
from tests.support.pages import find_block
from tests.support.yarn import start_yarn

from headrace.runtime.jars.ivy import spark_home
from headrace_stack.servers import jvm_command

pytestmark = [pytest.mark.dist, pytest.mark.spark, pytest.mark.slow, pytest.mark.one_spark]

CANARY = "canary-41d8c6-pepper"
FILES = {"files": {"path": str(ROOT / "tests/data/msk_demo/envelope"), "format": "avro"}}
TABLES = [{"source": "moma.public.artists", "key": ["artist_id"], "target": "moma.artists"}]
PAGE = "docs/spark-submit.md"
#: Program that records its arguments.
RECORDER = """\
#!{python}
import json, pathlib, sys
with pathlib.Path({calls!r}).open("a", encoding="utf-8") as file:
    print(json.dumps(sys.argv[1:]), file=file)
"""


class RecordedPrograms:
    """Stand-ins for programs, first in the path of a shell, and the arguments of their calls."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._file = folder, folder / "calls.jsonl"

    def replace(self, *names: str) -> None:
        for name in names:
            program = self._folder / name
            program.write_text(RECORDER.format(python=sys.executable, calls=str(self._file)), encoding="utf-8")
            program.chmod(0o755)

    @property
    def path(self) -> str:
        return os.pathsep.join([str(self._folder), os.environ["PATH"]])

    @property
    def calls(self) -> list[list[str]]:
        return [json.loads(line) for line in self._file.read_text(encoding="utf-8").splitlines()]


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Create a folder with ``shop.yaml``, which has the settings of the page. The commands of the page run in it."""
    pages = ("spark.emr-serverless.driverEnv.PYSPARK_PYTHON", "spark.kubernetes.container.image")
    settings = [yaml.safe_load(find_block(PAGE, "yaml", part))["spark"] for part in pages]
    spark = {**settings[0], **settings[1], "spark.app.name": "Shop's orders", "spark.jars": "local:///opt/own.jar"}
    config = {
        "name": "shop",
        "source": FILES,
        "tables": TABLES,
        "transforms": [{"unwrap": {}}, {"mask": {"columns": {"name": {"sha256": {"salt": "${env:SALT}"}}}}}],
        "sink": {"iceberg": {"warehouse": "s3://lake/silver"}},
        "checkpoint": "s3://lake/checkpoint",
        "spark": spark,
    }
    (tmp_path / "shop.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    return tmp_path


@pytest.fixture
def programs(shop: Path) -> RecordedPrograms:
    """Create the folder of stand-ins for programs that the machine lacks."""
    (shop / "bin").mkdir()
    return RecordedPrograms(shop / "bin")


def run_page_commands(block_part: str, folder: Path, programs: RecordedPrograms, **variables: str) -> list[list[str]]:
    """Run commands of the page with the ``headrace`` of this Python; return the calls of the stand-ins."""
    program = folder / "bin/headrace"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m headrace "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    python = {"PYTHONPATH": os.environ.get("PYTHONPATH", ""), "HOME": os.environ["HOME"], "SALT": CANARY}
    run(
        ["sh", "-ec", find_block(PAGE, "sh", block_part)],
        folder,
        environment={**python, "PATH": programs.path, **variables},
    )
    return programs.calls


def parse_settings(arguments: list[str]) -> dict[str, str]:
    """Return the Spark settings of ``spark-submit`` arguments, including options such as ``--archives``."""
    options = [
        value if name == "--conf" else f"spark.{name.removeprefix('--')}={value}"
        for name, value in zip(arguments[::2], arguments[1::2], strict=True)
    ]
    return dict(one.split("=", 1) for one in options)


def submit(folder: Path, programs: RecordedPrograms, at: str) -> dict[str, str]:
    """Return the settings that the package's command passes to ``spark-submit``, except master and deploy mode."""
    programs.replace("spark-submit")
    run([folder / "shop-package/submit.sh"], folder, environment={"PATH": programs.path, "MASTER": "yarn"})
    *arguments, program = programs.calls[-1]
    assert program == f"{at}/main.py"
    settings = parse_settings(arguments)
    assert (settings.pop("spark.master"), settings.pop("spark.deploy-mode")) == ("yarn", "client")
    assert settings["spark.archives"] == f"{at}/environment.zip#environment"
    assert settings["spark.jars"].endswith(",local:///opt/own.jar")
    return settings


def shell_environment() -> dict[str, str]:
    """Return the environment of a shell with Spark's own ``spark-submit``."""
    path = os.pathsep.join([str(spark_home() / "bin"), os.environ["PATH"]])
    return {"SPARK_HOME": str(spark_home()), "JAVA_HOME": str(jvm_command.java().home), "PATH": path}


@pytest.mark.nightly
def test_package_runs_on_yarn_in_cluster_mode(tmp_path: Path) -> None:
    """YARN runs driver and executors in separate folders, with a Python that has only PySpark."""
    (salt := tmp_path / "salt.properties").write_text(f"salt={CANARY}", encoding="utf-8")
    python = str(make_bare_python(tmp_path / "bare"))
    mask = {"columns": {"name": {"sha256": {"salt": f"${{file:{salt}:salt}}"}}}}
    environment = {"PYSPARK_PYTHON": python, "SPARK_LOCAL_IP": "127.0.0.1"}
    variables = {
        f"spark.{prefix}.{name}": value
        for name, value in environment.items()
        for prefix in ("executorEnv", "yarn.appMasterEnv")
    }
    config = {
        "source": FILES,
        "tables": TABLES,
        "transforms": [{"unwrap": {}}, {"mask": mask}],
        "sink": {"iceberg": {"warehouse": str(tmp_path / "lake")}},
        "spark": {**variables, "spark.executor.instances": 1},
    }
    make_package(tmp_path, "", config)
    copy = (tmp_path / "package").rename(tmp_path / "copy")
    with start_yarn() as (resources, node):
        shell = {
            **environment,
            **shell_environment(),
            "HADOOP_CONF_DIR": str(resources.folder),
            "MASTER": "yarn",
            "DEPLOY_MODE": "cluster",
            "AT": copy.as_uri(),
        }
        submitted = run([copy / "submit.sh", "--available-now"], tmp_path, environment=shell)
        printed = node.output
    assert "moma.artists → iceberg: 900 rows in, 900 applied" in printed
    assert CANARY not in printed + submitted.stdout + submitted.stderr
    table = pyarrow.parquet.read_table(tmp_path / "lake/moma/artists/data").to_pylist()
    assert len({row["artist_id"] for row in table}) == len(table) == 900
    assert {len(row["name"]) for row in table} == {64}


def test_emr_serverless_job_has_the_settings_of_the_command(shop: Path, programs: RecordedPrograms) -> None:
    """The request is validated against the service model."""
    programs.replace("aws")
    role = "arn:aws:iam::123456789012:role/headrace"
    copy, start = run_page_commands("start-job-run", shop, programs, APPLICATION="00f1", ROLE=role)
    at = "s3://lake/packages/shop"
    assert copy == ["s3", "cp", "--recursive", "shop-package", at]
    assert start[:2] == ["emr-serverless", "start-job-run"]
    options = dict(zip(start[2::2], start[3::2], strict=True))
    job = json.loads((shop / options["--cli-input-json"].removeprefix("file://")).read_text(encoding="utf-8"))
    names = {"applicationId": "--application-id", "executionRoleArn": "--execution-role-arn", "mode": "--mode"}
    request = {"clientToken": "once", **{name: options[option] for name, option in names.items()}, **job}
    shape = get_session().get_service_model("emr-serverless").operation_model("StartJobRun").input_shape
    assert not ParamValidator().validate(request, shape).has_errors()
    driver = job["jobDriver"]["sparkSubmit"]
    assert driver["entryPoint"] == f"{at}/main.py"
    (defaults,) = job["configurationOverrides"]["applicationConfiguration"]
    assert defaults["classification"] == "spark-defaults"
    settings = {**defaults["properties"], **parse_settings(driver["sparkSubmitParameters"].split())}
    assert settings == submit(shop, programs, at)
    assert settings["spark.emr-serverless.driverEnv.PYSPARK_PYTHON"] == "/usr/bin/python3.11"
    assert CANARY not in json.dumps(job)


def test_spark_operator_has_the_settings_of_the_command(shop: Path, programs: RecordedPrograms) -> None:
    programs.replace("aws", "kubectl")
    _, apply = run_page_commands("kubectl apply", shop, programs)
    assert apply == ["apply", "-f", "shop-package/spark-application.yaml"]
    text = (shop / apply[-1]).read_text(encoding="utf-8")
    application = yaml.safe_load(text)
    assert application["metadata"] == {"name": "shop"}
    at, spec = "s3a://lake/packages/shop", application["spec"]
    assert (spec["type"], spec["mode"], spec["mainApplicationFile"]) == ("Python", "cluster", f"{at}/main.py")
    assert spec["sparkVersion"] == pyspark.__version__
    assert spec["sparkConf"] == submit(shop, programs, at)
    # The resource definition of the operator also requires these.
    assert spec.keys() > {"driver", "executor"}
    assert CANARY not in text


class Kubernetes:
    """Stand-in for the API of a cluster. It accepts and records every resource."""

    def __init__(self) -> None:
        self.created: list[dict[str, Any]] = []
        created = self.created

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                one = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                created.append(one)
                body = json.dumps({**one, "metadata": {**one["metadata"], "uid": f"uid-{len(created)}"}}).encode()
                self.send_response(201)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_PATCH = do_POST  # noqa: N815 - the name is given by the base class

            def log_message(self, *_: object) -> None:
                """Log nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def kubernetes() -> Iterator[Kubernetes]:
    with Kubernetes() as cluster:
        yield cluster


@pytest.mark.nightly
def test_spark_submit_requests_a_driver_pod_from_kubernetes(
    shop: Path, programs: RecordedPrograms, kubernetes: Kubernetes
) -> None:
    """Spark's own client reads the command and requests the driver pod. Only the cluster is a stand-in."""
    programs.replace("aws", "kubectl")
    run_page_commands("kubectl apply", shop, programs)
    at = "local:///opt/shop"
    script = shop / "shop-package/submit.sh"
    wait = "--conf spark.kubernetes.submission.waitAppCompletion=false"
    script.write_text(
        script.read_text(encoding="utf-8").replace("--archives", f"{wait} --archives", 1), encoding="utf-8"
    )
    shell = {"MASTER": f"k8s://{kubernetes.url}", "DEPLOY_MODE": "cluster", "AT": at, **shell_environment()}
    run([script, "--available-now"], shop, environment=shell)
    (pod,) = [one for one in kubernetes.created if one["kind"] == "Pod"]
    (driver,) = pod["spec"]["containers"]
    assert driver["image"] == "registry.example/spark:3.5.7-java17-python3.11"
    assert driver["args"][-2:] == [f"{at}/main.py", "--available-now"]
    (salt,) = [variable for variable in driver["env"] if variable["name"] == "SALT"]
    assert salt["valueFrom"]["secretKeyRef"] == {"name": "shop", "key": "salt"}
    (text,) = [
        one["data"]["spark.properties"] for one in kubernetes.created if "spark.properties" in one.get("data", {})
    ]
    properties = dict(line.replace("\\", "").split("=", 1) for line in text.splitlines() if "=" in line)
    assert properties["spark.archives"] == f"{at}/environment.zip#environment"
    assert properties["spark.files"] == f"{at}/pipeline.yaml"
    assert CANARY not in json.dumps(kubernetes.created)
