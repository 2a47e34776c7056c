"""Kafka Connect with Debezium's connectors and converters for a schema registry."""

from __future__ import annotations

import time
import uuid
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from headrace.errors import ConfigError, FatalError
from headrace_stack.download import artifacts
from headrace_stack.servers import jvm_command
from headrace_stack.servers.json_http import request
from headrace_stack.servers.kafka import Kafka
from headrace_stack.servers.server import Server

#: Valid names in ``Connect(connectors=…)``.
CONNECTORS = ("postgres", "mysql", "mariadb", "sqlserver")


class Connect(Server):
    """Worker that stores connectors and their offsets in topics of a Kafka.

    By default keys and values are JSON without schemas. ``SchemaRegistry.avro_converter`` returns the settings for Avro, and
    ``SchemaRegistry.json_converter`` those for JSON with a registry.
    """

    name = "connect"

    def __init__(self, kafka: Kafka, connectors: Sequence[str] = CONNECTORS) -> None:
        """Prepare a worker; ``connectors`` selects some of CONNECTORS."""
        super().__init__()
        if unknown := set(connectors) - set(CONNECTORS):
            raise ConfigError(f"unknown connector: {', '.join(unknown)}", fix=f"use some of {', '.join(CONNECTORS)}")
        self._kafka, self._connectors = kafka, tuple(connectors)
        self._group = f"connect-{uuid.uuid4().hex[:8]}"

    @property
    def url(self) -> str:
        return f"http://{self.host}:{self.port}"

    def put(self, name: str, config: Mapping[str, str], *, timeout: float = 60) -> None:
        """Create or change a connector and wait until it and its tasks run.

        ConfigError for an invalid configuration, FatalError with the stack trace if it or a task fails, and TimeoutError
        after ``timeout`` seconds.
        """
        deadline = time.monotonic() + timeout
        while True:
            code, answer = request("PUT", f"{self._connector(name)}/config", dict(config))
            # 409: the worker still applies the last change.
            if code != 409 or time.monotonic() > deadline:
                break
            time.sleep(0.1)
        if code >= 400:
            raise ConfigError(self._complaints(name, config) or str(answer), where=f"connector {name}")
        self.wait_until_running(name, timeout=timeout)

    def wait_until_running(self, name: str, *, timeout: float = 60) -> None:
        """Wait until a connector runs, for example after a restart of Connect or of its database. Errors as in ``put``."""
        deadline = time.monotonic() + timeout
        while True:
            status = self.status(name)
            states = [status["connector"], *status["tasks"]] if status else []
            if failed := [state for state in states if state["state"] == "FAILED"]:
                raise FatalError(failed[0].get("trace", "the connector failed"), where=f"connector {name}")
            if len(states) > 1 and all(state["state"] == "RUNNING" for state in states):
                return
            if time.monotonic() > deadline:
                raise TimeoutError(f"connector {name} is not running after {timeout:.0f} s: {status}")
            time.sleep(0.05)

    def status(self, name: str) -> dict[str, Any] | None:
        """Return the response of ``GET /connectors/NAME/status``; None for an unknown connector."""
        code, answer = request("GET", f"{self._connector(name)}/status")
        return answer if code == 200 else None

    def delete(self, name: str, *, timeout: float = 60) -> None:
        """Delete a connector and wait for it; an unknown connector is not an error. The connector's topics and its replication slot stay."""
        deadline = time.monotonic() + timeout
        while request("DELETE", self._connector(name))[0] == 409 or self.status(name):
            if time.monotonic() > deadline:
                raise TimeoutError(f"connector {name} still exists after {timeout:.0f} s")
            time.sleep(0.1)

    @property
    def address(self) -> str:
        return self.url

    def fetch(self) -> None:
        artifacts.fetch("connect", "converter")
        for connector in self._connectors:
            artifacts.unpack(f"debezium-{connector}")

    def prepare(self) -> None:
        plugins = self.folder / "plugins"
        plugins.mkdir()
        for connector in self._connectors:
            (plugins / connector).symlink_to(artifacts.unpack(f"debezium-{connector}"))
        converters = plugins / "converters"
        converters.mkdir()
        for jar in artifacts.fetch("converter"):
            (converters / jar.name).symlink_to(jar)
        # The jars declare no converters, and a scan of every class takes Connect several seconds.
        with zipfile.ZipFile(converters / "services.jar", "w") as services:
            services.writestr(
                "META-INF/services/org.apache.kafka.connect.storage.Converter",
                "io.apicurio.registry.utils.converter.AvroConverter\n"
                "io.apicurio.registry.utils.converter.ExtJsonConverter\n",
            )

    def command(self) -> Sequence[str | Path]:
        settings = {
            "bootstrap.servers": self._kafka.bootstrap_servers,
            "group.id": self._group,
            "listeners": f"http://{self.host}:{self.port}",
            "rest.advertised.host.name": self.host,
            "config.storage.topic": f"{self._group}-configs",
            "config.storage.replication.factor": "1",
            "offset.storage.topic": f"{self._group}-offsets",
            "offset.storage.replication.factor": "1",
            "offset.storage.partitions": "1",
            "status.storage.topic": f"{self._group}-status",
            "status.storage.replication.factor": "1",
            "status.storage.partitions": "1",
            "offset.flush.interval.ms": "1000",
            "key.converter": "org.apache.kafka.connect.json.JsonConverter",
            "key.converter.schemas.enable": "false",
            "value.converter": "org.apache.kafka.connect.json.JsonConverter",
            "value.converter.schemas.enable": "false",
            # ${file:PATH:KEY} and ${env:NAME} in the configuration of connectors
            "config.providers": "file,env",
            "config.providers.file.class": "org.apache.kafka.common.config.provider.FileConfigProvider",
            "config.providers.env.class": "org.apache.kafka.common.config.provider.EnvVarConfigProvider",
            "plugin.path": str(self.folder / "plugins"),
            "plugin.discovery": "service_load",
            "scheduled.rebalance.max.delay.ms": "0",
        }
        properties = self.folder / "connect.properties"
        properties.write_text("".join(f"{key}={value}\n" for key, value in settings.items()), encoding="utf-8")
        main = "org.apache.kafka.connect.cli.ConnectDistributed"
        return jvm_command.command(main, str(properties), classpath=artifacts.fetch("connect"), heap="1g")

    def ready(self) -> bool:
        try:
            return request("GET", f"{self.url}/connectors")[0] == 200
        except OSError:
            return False

    def _complaints(self, name: str, config: Mapping[str, str]) -> str:
        """Return the errors of a configuration. The response to a PUT lacks them if a default is null."""
        plugin = quote(config.get("connector.class", ""), safe="")
        code, answer = request(
            "PUT", f"{self.url}/connector-plugins/{plugin}/config/validate", {"name": name, **config}
        )
        if code != 200:
            return ""
        values = [info["value"] for info in answer["configs"] if info["value"]]
        return "; ".join(f"{value['name']}: {error}" for value in values for error in value["errors"])

    def _connector(self, name: str) -> str:
        return f"{self.url}/connectors/{quote(name, safe='')}"
