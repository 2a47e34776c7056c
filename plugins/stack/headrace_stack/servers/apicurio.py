"""Apicurio Registry with the API of Confluent Schema Registry."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from headrace_stack.download import artifacts
from headrace_stack.servers import jvm_command
from headrace_stack.servers.json_http import request
from headrace_stack.servers.server import Server


class SchemaRegistry(Server):
    """Schema registry at ``url``, and at ``ccompat_url`` for Confluent clients."""

    name = "registry"
    ports = ("port", "_management_port")
    _management_port: int

    @property
    def url(self) -> str:
        return f"http://{self.host}:{self.port}"

    @property
    def ccompat_url(self) -> str:
        return f"{self.url}/apis/ccompat/v7"

    def avro_converter(self) -> dict[str, str]:
        """Return connector settings for Avro keys and values in Confluent's framing: 0, ID (4 bytes), Avro.

        The schema is at ``ccompat_url``/schemas/ids/ID.
        """
        settings = {
            "as-confluent": "true",
            "use-id": "contentId",
            # Otherwise the ID is a header and the value is plain Avro.
            "headers.enabled": "false",
        }
        return self._converters("AvroConverter", settings)

    def json_converter(self) -> dict[str, str]:
        """Return connector settings for JSON: ``{"schemaId":ID,"payload":…}``.

        The schema is at ``url``/apis/registry/v2/ids/globalIds/ID, not at ``ccompat_url``.
        """
        return self._converters("ExtJsonConverter", {})

    def _converters(self, name: str, settings: Mapping[str, str]) -> dict[str, str]:
        """Return the settings of an Apicurio converter for keys and values."""
        common = {"url": f"{self.url}/apis/registry/v2", "auto-register": "true", "find-latest": "true"}
        converter = {f".apicurio.registry.{key}": value for key, value in {**common, **settings}.items()}
        converter[""] = f"io.apicurio.registry.utils.converter.{name}"
        return {f"{part}.converter{key}": value for part in ("key", "value") for key, value in converter.items()}

    @property
    def address(self) -> str:
        return self.url

    def fetch(self) -> None:
        artifacts.unpack("registry")

    def command(self) -> Sequence[str | Path]:
        options = {
            "quarkus.http.host": self.host,
            "quarkus.http.port": self.port,
            "quarkus.management.host": self.host,
            "quarkus.management.port": self._management_port,
            "apicurio.storage.sql.kind": "h2",
            "apicurio.datasource.url": f"jdbc:h2:file:{self.folder / 'data' / 'registry'}",
        }
        properties = [f"-D{name}={value}" for name, value in options.items()]
        (program,) = artifacts.unpack("registry").glob("apicurio-registry-app-*-runner.jar")
        return jvm_command.command("-jar", str(program), options=properties, heap="512m")

    def ready(self) -> bool:
        try:
            return request("GET", f"{self.ccompat_url}/subjects")[0] == 200
        except OSError:
            return False
