"""YARN cluster of one machine, of the Hadoop version in PySpark 3.5."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

from headrace.runtime.jars.ivy import spark_home
from headrace_stack.download import artifacts
from headrace_stack.servers import jvm_command
from headrace_stack.servers.json_http import request
from headrace_stack.servers.server import Server

_PACKAGE = "org.apache.hadoop.yarn.server"


class _Daemon(Server):
    """Server of YARN with its configuration in its folder."""

    def fetch(self) -> None:
        artifacts.fetch("yarn")

    def launch(self, program: str) -> Sequence[str | Path]:
        classpath = [self.folder, *artifacts.fetch("yarn"), spark_home() / "jars/*"]
        options = ["--add-opens=java.base/java.lang=ALL-UNNAMED"]
        return jvm_command.command(program, classpath=classpath, options=options, heap="384m")

    def write(self, settings: Mapping[str, str]) -> None:
        jvm_command.write_settings(self.folder / "yarn-site.xml", settings)
        base = {"fs.defaultFS": "file:///", "hadoop.tmp.dir": str(self.folder / "tmp")}
        jvm_command.write_settings(self.folder / "core-site.xml", base)


class ResourceManager(_Daemon):
    """Resource manager, which starts applications; its folder is the value of ``HADOOP_CONF_DIR``."""

    name = "yarn-resources"
    ports: ClassVar[tuple[str, ...]] = ("port", "scheduler_port", "tracker_port", "admin_port", "web_port")
    scheduler_port: int
    tracker_port: int
    admin_port: int
    web_port: int

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"

    def prepare(self) -> None:
        ports = {
            "": self.port,
            "scheduler.": self.scheduler_port,
            "resource-tracker.": self.tracker_port,
            "admin.": self.admin_port,
            "webapp.": self.web_port,
        }
        addresses = {f"yarn.resourcemanager.{prefix}address": f"{self.host}:{port}" for prefix, port in ports.items()}
        self.write({**addresses, "yarn.scheduler.minimum-allocation-mb": "256"})
        queues = {"root.queues": "default", "root.default.capacity": "100", "maximum-am-resource-percent": "1"}
        settings = {f"yarn.scheduler.capacity.{name}": value for name, value in queues.items()}
        jvm_command.write_settings(self.folder / "capacity-scheduler.xml", settings)

    def command(self) -> Sequence[str | Path]:
        return self.launch(f"{_PACKAGE}.resourcemanager.ResourceManager")

    def ready(self) -> bool:
        try:
            return request("GET", f"http://{self.pages}/ws/v1/cluster/info")[0] == 200
        except OSError:
            return False

    @property
    def pages(self) -> str:
        return f"{self.host}:{self.web_port}"


class NodeManager(_Daemon):
    """Node manager, which runs drivers and executors in separate folders and keeps their output."""

    name = "yarn-node"
    ports: ClassVar[tuple[str, ...]] = ("port", "localizer_port", "web_port")
    localizer_port: int
    web_port: int

    def __init__(self, resources: ResourceManager) -> None:
        super().__init__()
        self._resources = resources

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def output(self) -> str:
        """Output of all processes of the applications."""
        files = sorted(path for path in (self.folder / "logs").rglob("*") if path.is_file())
        return "\n".join(path.read_text(encoding="utf-8", errors="replace") for path in files)

    def prepare(self) -> None:
        tracker = f"{self._resources.host}:{self._resources.tracker_port}"
        settings = {
            "yarn.resourcemanager.resource-tracker.address": tracker,
            "yarn.nodemanager.address": self.address,
            "yarn.nodemanager.localizer.address": f"{self.host}:{self.localizer_port}",
            "yarn.nodemanager.webapp.address": f"{self.host}:{self.web_port}",
            "yarn.nodemanager.local-dirs": str(self.folder / "local"),
            "yarn.nodemanager.log-dirs": str(self.folder / "logs"),
            "yarn.nodemanager.resource.memory-mb": "4096",
            "yarn.nodemanager.resource.cpu-vcores": "4",
            # A full disk or reserved JVM memory must not end a test.
            "yarn.nodemanager.disk-health-checker.enable": "false",
            "yarn.nodemanager.vmem-check-enabled": "false",
        }
        self.write(settings)

    def command(self) -> Sequence[str | Path]:
        return self.launch(f"{_PACKAGE}.nodemanager.NodeManager")

    def ready(self) -> bool:
        return self.log_says("Registered with ResourceManager as")


@contextmanager
def start_yarn() -> Iterator[tuple[ResourceManager, NodeManager]]:
    """Start a ResourceManager and a NodeManager on this machine."""
    with ResourceManager() as resources, NodeManager(resources) as node:
        yield resources, node
