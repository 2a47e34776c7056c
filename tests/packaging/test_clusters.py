"""A package on clusters that are not Spark's own: what the documents say to do on each, done.

YARN is real. Of AWS and of Kubernetes there is none here: what would be sent to them is compared with what the package's own
command gives to ``spark-submit``, which test_spark_submit.py and the test on YARN run.
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
#: A program that writes down what it was called with.
RECORDER = """\
#!{python}
import json, pathlib, sys
with pathlib.Path({calls!r}).open("a", encoding="utf-8") as file:
    print(json.dumps(sys.argv[1:]), file=file)
"""


class Calls:
    """Programs that stand in for real ones, first on the path of a shell, and what they were called with."""

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
    """A folder with ``shop.yaml``, whose settings are those of the page, in which the commands of the page are called."""
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
def calls(shop: Path) -> Calls:
    """The shell's own programs, in place of what the machine lacks."""
    (shop / "bin").mkdir()
    return Calls(shop / "bin")


def call(page_has: str, folder: Path, calls: Calls, **variables: str) -> list[list[str]]:
    """Runs the page's commands with the program ``headrace`` of this Python; what other programs were called with."""
    program = folder / "bin/headrace"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m headrace "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    python = {"PYTHONPATH": os.environ.get("PYTHONPATH", ""), "HOME": os.environ["HOME"], "SALT": CANARY}
    run(
        ["sh", "-ec", find_block(PAGE, "sh", page_has)], folder, environment={**python, "PATH": calls.path, **variables}
    )
    return calls.calls


def settings_of(arguments: list[str]) -> dict[str, str]:
    """What ``spark-submit`` makes of its arguments: settings, as its own ``--archives`` and so on are."""
    given = [
        value if name == "--conf" else f"spark.{name.removeprefix('--')}={value}"
        for name, value in zip(arguments[::2], arguments[1::2], strict=True)
    ]
    return dict(one.split("=", 1) for one in given)


def submit(folder: Path, calls: Calls, at: str) -> dict[str, str]:
    """The settings that the package's own command gives to ``spark-submit``, its program and where it runs aside."""
    calls.replace("spark-submit")
    run([folder / "shop-package/submit.sh"], folder, environment={"PATH": calls.path, "MASTER": "yarn"})
    *arguments, program = calls.calls[-1]
    assert program == f"{at}/main.py"
    settings = settings_of(arguments)
    assert (settings.pop("spark.master"), settings.pop("spark.deploy-mode")) == ("yarn", "client")
    assert settings["spark.archives"] == f"{at}/environment.zip#environment"
    assert settings["spark.jars"].endswith(",local:///opt/own.jar")
    return settings


def spark_shell() -> dict[str, str]:
    """The variables of a shell in which ``spark-submit`` is Spark's."""
    path = os.pathsep.join([str(spark_home() / "bin"), os.environ["PATH"]])
    return {"SPARK_HOME": str(spark_home()), "JAVA_HOME": str(jvm_command.java().home), "PATH": path}


@pytest.mark.nightly
def test_a_package_runs_on_yarn_in_cluster_mode(tmp_path: Path) -> None:
    """Driver and executors are YARN's, in folders of their own, with a Python that has PySpark and nothing else."""
    (salt := tmp_path / "salt.properties").write_text(f"salt={CANARY}", encoding="utf-8")
    python = str(make_bare_python(tmp_path / "bare"))
    mask = {"columns": {"name": {"sha256": {"salt": f"${{file:{salt}:salt}}"}}}}
    machine = {"PYSPARK_PYTHON": python, "SPARK_LOCAL_IP": "127.0.0.1"}
    variables = {
        f"spark.{what}.{name}": value
        for name, value in machine.items()
        for what in ("executorEnv", "yarn.appMasterEnv")
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
            **machine,
            **spark_shell(),
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


def test_emr_serverless_is_given_what_the_command_gives(shop: Path, calls: Calls) -> None:
    """Its request is checked against the model of the service."""
    calls.replace("aws")
    role = "arn:aws:iam::123456789012:role/headrace"
    copy, start = call("start-job-run", shop, calls, APPLICATION="00f1", ROLE=role)
    at = "s3://lake/packages/shop"
    assert copy == ["s3", "cp", "--recursive", "shop-package", at]
    assert start[:2] == ["emr-serverless", "start-job-run"]
    given = dict(zip(start[2::2], start[3::2], strict=True))
    job = json.loads((shop / given["--cli-input-json"].removeprefix("file://")).read_text(encoding="utf-8"))
    names = {"applicationId": "--application-id", "executionRoleArn": "--execution-role-arn", "mode": "--mode"}
    request = {"clientToken": "once", **{name: given[option] for name, option in names.items()}, **job}
    shape = get_session().get_service_model("emr-serverless").operation_model("StartJobRun").input_shape
    assert not ParamValidator().validate(request, shape).has_errors()
    driver = job["jobDriver"]["sparkSubmit"]
    assert driver["entryPoint"] == f"{at}/main.py"
    (defaults,) = job["configurationOverrides"]["applicationConfiguration"]
    assert defaults["classification"] == "spark-defaults"
    settings = {**defaults["properties"], **settings_of(driver["sparkSubmitParameters"].split())}
    assert settings == submit(shop, calls, at)
    assert settings["spark.emr-serverless.driverEnv.PYSPARK_PYTHON"] == "/usr/bin/python3.11"
    assert CANARY not in json.dumps(job)


def test_the_spark_operator_is_given_what_the_command_gives(shop: Path, calls: Calls) -> None:
    calls.replace("aws", "kubectl")
    _, apply = call("kubectl apply", shop, calls)
    assert apply == ["apply", "-f", "shop-package/spark-application.yaml"]
    text = (shop / apply[-1]).read_text(encoding="utf-8")
    application = yaml.safe_load(text)
    assert application["metadata"] == {"name": "shop"}
    at, spec = "s3a://lake/packages/shop", application["spec"]
    assert (spec["type"], spec["mode"], spec["mainApplicationFile"]) == ("Python", "cluster", f"{at}/main.py")
    assert spec["sparkVersion"] == pyspark.__version__
    assert spec["sparkConf"] == submit(shop, calls, at)
    # what the operator's own definition of the kind demands beside these
    assert spec.keys() > {"driver", "executor"}
    assert CANARY not in text


class Kubernetes:
    """A stand-in for a cluster's API: it says that everything was made, and keeps what."""

    def __init__(self) -> None:
        self.made: list[dict[str, Any]] = []
        made = self.made

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                one = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                made.append(one)
                body = json.dumps({**one, "metadata": {**one["metadata"], "uid": f"uid-{len(made)}"}}).encode()
                self.send_response(201)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_PATCH = do_POST  # noqa: N815 - the handler's name for it

            def log_message(self, *_: object) -> None:
                """Says nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def kubernetes() -> Iterator[Kubernetes]:
    with Kubernetes() as cluster:
        yield cluster


@pytest.mark.nightly
def test_sparks_client_makes_a_driver_of_kubernetes(shop: Path, calls: Calls, kubernetes: Kubernetes) -> None:
    """Real but for the cluster: Spark's own client reads the command and says which pod it wants."""
    calls.replace("aws", "kubectl")
    call("kubectl apply", shop, calls)
    at = "local:///opt/shop"
    script = shop / "shop-package/submit.sh"
    wait = "--conf spark.kubernetes.submission.waitAppCompletion=false"
    script.write_text(
        script.read_text(encoding="utf-8").replace("--archives", f"{wait} --archives", 1), encoding="utf-8"
    )
    shell = {"MASTER": f"k8s://{kubernetes.url}", "DEPLOY_MODE": "cluster", "AT": at, **spark_shell()}
    run([script, "--available-now"], shop, environment=shell)
    (pod,) = [one for one in kubernetes.made if one["kind"] == "Pod"]
    (driver,) = pod["spec"]["containers"]
    assert driver["image"] == "registry.example/spark:3.5.7-java17-python3.11"
    assert driver["args"][-2:] == [f"{at}/main.py", "--available-now"]
    (salt,) = [variable for variable in driver["env"] if variable["name"] == "SALT"]
    assert salt["valueFrom"]["secretKeyRef"] == {"name": "shop", "key": "salt"}
    (text,) = [one["data"]["spark.properties"] for one in kubernetes.made if "spark.properties" in one.get("data", {})]
    properties = dict(line.replace("\\", "").split("=", 1) for line in text.splitlines() if "=" in line)
    assert properties["spark.archives"] == f"{at}/environment.zip#environment"
    assert properties["spark.files"] == f"{at}/pipeline.yaml"
    assert CANARY not in json.dumps(kubernetes.made)
