"""Iceberg REST catalog of Iceberg's tests, which is in memory."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from headrace_stack.download import artifacts
from headrace_stack.java_jar import JavaJar
from headrace_stack.servers import jvm_command
from headrace_stack.servers.server import Server

JAR = JavaJar(Path(__file__).with_name("catalog.jar"), "iceberg-rest")


class IcebergRest(Server):
    """REST catalog at ``uri``; clients write files in ``warehouse``, by default a folder of the server.

    It accepts every request without authentication. A stopped catalog forgets its tables.
    """

    name = "iceberg-rest"

    def __init__(self, warehouse: str | None = None) -> None:
        super().__init__()
        self._warehouse = warehouse

    @property
    def uri(self) -> str:
        """Value of ``uri`` in the properties of a catalog."""
        return f"http://{self.host}:{self.port}"

    @property
    def warehouse(self) -> str:
        return self._warehouse or (self.folder / "warehouse").as_uri()

    @property
    def address(self) -> str:
        return self.uri

    def fetch(self) -> None:
        artifacts.fetch("iceberg-rest")

    def command(self) -> Sequence[str | Path]:
        main = ("org.apache.iceberg.rest.CatalogServer", self.host, str(self.port), self.warehouse)
        return jvm_command.command(*main, classpath=[JAR.path, *artifacts.fetch("iceberg-rest")], heap="256m")

    def ready(self) -> bool:
        return self.log_says("Iceberg REST catalog started")
