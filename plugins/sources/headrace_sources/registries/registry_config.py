"""Options of the schema registry from which a format takes its records' schemas."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from headrace_kafka.registry_options import RegistryAddress, RegistryOptions
from headrace_sources.registries.http_registries import is_apicurio, open_registry
from headrace_sources.registries.schema_registry import SchemaRegistry


class RegistryConfig(RegistryOptions):
    """Options of a schema registry."""

    registry: RegistryAddress | None = None
    """The schema registry: ``https://host`` (Confluent), ``…/apis/ccompat/v7``, ``…/apis/registry/v2`` or ``v3`` (Apicurio),
    ``glue`` (AWS, for Avro only).
    """

    use_id: Literal["globalId", "contentId"] | None = Field(default=None, alias="use-id")
    """Which of Apicurio's ids precedes a record. Default: ``globalId`` at ``/apis/registry/v2``, else ``contentId``."""

    @property
    def id_kind(self) -> str:
        """Kind of Apicurio's ids that precede records; empty with another API or by default."""
        return (self.use_id or "") if is_apicurio(self.registry or "") else ""

    def open_registry(self) -> SchemaRegistry:
        """Return the registry at the address of ``registry``."""
        return open_registry(self.make_client())
