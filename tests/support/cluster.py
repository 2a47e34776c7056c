"""Spark standalone cluster from PySpark's jars, and a Python with only PySpark."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import py4j
import pyspark
import yaml
from tests.support.dist import ROOT, run

from headrace.runtime.jars.ivy import spark_home
from headrace_stack.servers import jvm_command
from headrace_stack.servers.json_http import request
from headrace_stack.servers.server import Server

#: Settings of a small session, because many tests run on the machine.
SMALL = {
    "spark.driver.memory": "1g",
    "spark.executor.memory": "512m",
    "spark.sql.shuffle.partitions": 2,
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1",
}


class _Daemon(Server):
    """Process of the cluster."""

    def fetch(self) -> None:
        """Do nothing, because PySpark is installed."""

    def launch(self, *program: str, environment: Mapping[str, str] = {}) -> Sequence[str | Path]:
        variables = {
            "SPARK_HOME": str(spark_home()),
            "SPARK_SCALA_VERSION": "2.12",  # by default, Spark detects the version from the folders of its build
            "SPARK_LOCAL_IP": self.host,
            **environment,
        }
        command = jvm_command.command(*program, "--host", self.host, classpath=[spark_home() / "jars/*"], heap="256m")
        return ["/usr/bin/env", *(f"{name}={value}" for name, value in variables.items()), *command]


class Master(_Daemon):
    """Master of the cluster; it starts applications and runs none of their code."""

    name = "spark-master"
    ports: ClassVar[tuple[str, ...]] = ("port", "web_port")
    web_port: int

    @property
    def address(self) -> str:
        return f"spark://{self.host}:{self.port}"

    def command(self) -> Sequence[str | Path]:
        ports = ("--port", str(self.port), "--webui-port", str(self.web_port))
        return self.launch("org.apache.spark.deploy.master.Master", *ports)

    def ready(self) -> bool:
        try:
            return request("GET", f"http://{self.host}:{self.web_port}/json/")[0] == 200
        except OSError:
            return False


class Worker(_Daemon):
    """Worker of the cluster: one core and an executor in its own folder, with a given environment."""

    name = "spark-worker"
    ports: ClassVar[tuple[str, ...]] = ("port", "web_port")
    web_port: int

    def __init__(self, master: Master, environment: Mapping[str, str]) -> None:
        super().__init__()
        self._master, self._environment = master, environment

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"

    def command(self) -> Sequence[str | Path]:
        ports = ("--port", str(self.port), "--webui-port", str(self.web_port))
        size = ("--cores", "1", "--memory", "1g", "--work-dir", str(self.folder / "work"))
        worker = ("org.apache.spark.deploy.worker.Worker", *ports, *size, self._master.address)
        return self.launch(*worker, environment=self._environment)

    def ready(self) -> bool:
        return self.log_says("Successfully registered with master")


@contextmanager
def start_cluster(environment: Mapping[str, str] = {}) -> Iterator[Master]:
    """Start a master and two workers."""
    with Master() as master, Worker(master, environment), Worker(master, environment):
        yield master


def make_bare_python(folder: Path) -> Path:
    """Make a Python with PySpark and the standard library only."""
    run([sys.executable, "-m", "venv", "--without-pip", folder], folder.parent)
    (site,) = folder.glob("lib/python*/site-packages")
    for module in (pyspark, py4j):
        package = Path(str(module.__file__)).parent
        (site / package.name).symlink_to(package)
    return folder / "bin/python"


def submitter_environment(master: Master, python: Path) -> dict[str, str]:
    """Return the environment of a shell with Spark's ``spark-submit`` and the bare Python."""
    home = spark_home()
    return {
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": master.host,
        "JAVA_HOME": str(jvm_command.java().home),
        "PATH": os.pathsep.join([str(home / "bin"), os.environ["PATH"]]),
        "PYSPARK_PYTHON": str(python),
        "MASTER": master.address,
    }


def make_package(folder: Path, salt: str, config: dict[str, Any]) -> None:
    """Package a pipeline file whose ``${env:SALT}`` is ``salt``; only ``folder``/package remains."""
    file = folder / "shop.yaml"
    complete = {
        "name": "shop",
        "tables": [],
        **config,
        "checkpoint": str(folder / "checkpoint"),
        "spark": {**SMALL, **config.get("spark", {})},
    }
    file.write_text(yaml.safe_dump(complete), encoding="utf-8")
    command: list[str | Path] = [sys.executable, "-m", "headrace", "package", file, "--output", folder / "package"]
    run(command, ROOT, environment={"SALT": salt, "PYTHONPATH": os.environ.get("PYTHONPATH", "")})
    file.unlink()
