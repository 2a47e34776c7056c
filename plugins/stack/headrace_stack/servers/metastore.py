"""Hive metastore from PySpark's jars."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from headrace.runtime.jars.ivy import spark_home
from headrace_stack.servers import jvm_command
from headrace_stack.servers.server import Server

#: Packages that it opens by reflection.
_OPEN = (
    "java.base/java.lang",
    "java.base/java.lang.reflect",
    "java.base/java.net",
    "java.base/java.nio",
    "java.base/java.io",
    "java.base/java.util",
    "java.base/java.util.concurrent",
    "java.base/java.util.concurrent.atomic",
    "java.sql/java.sql",
)


class Metastore(Server):
    """Metastore at ``uri`` with tables in ``warehouse``. Requires only PySpark.

    It listens on all interfaces, because this version of Hive has no setting for the interface.
    """

    name = "metastore"

    @property
    def uri(self) -> str:
        """Value of ``hive.metastore.uris``."""
        return f"thrift://{self.host}:{self.port}"

    @property
    def warehouse(self) -> Path:
        return self.folder / "warehouse"

    @property
    def address(self) -> str:
        return self.uri

    def fetch(self) -> None:
        """Check that PySpark is installed, which has the jars; ConfigError otherwise."""
        spark_home()

    def prepare(self) -> None:
        self.warehouse.mkdir()

    def command(self) -> Sequence[str | Path]:
        settings = {
            "javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={self.folder / 'data'};create=true",
            "datanucleus.schema.autoCreateAll": "true",
            "hive.metastore.schema.verification": "false",
            "hive.metastore.warehouse.dir": self.warehouse.as_uri(),
            # Hive's log configuration requires classes that PySpark's log4j lacks, and writes to a file shared by all users.
            "hive.log4j.file": str(jvm_command.LOG),
            "hive.async.log.enabled": "false",
        }
        jvm_command.write_settings(self.folder / "hive-site.xml", settings)
        options = [f"-Dderby.stream.error.file={self.folder / 'derby.log'}"]
        options += [f"--add-opens={package}=ALL-UNNAMED" for package in _OPEN]
        main = ("org.apache.hadoop.hive.metastore.HiveMetaStore", "-p", str(self.port))
        classpath = [str(self.folder), f"{spark_home() / 'jars'}/*"]
        return jvm_command.command(*main, classpath=classpath, options=options, heap="512m")

    def ready(self) -> bool:
        return self.log_says("Started the new metaserver on port")
