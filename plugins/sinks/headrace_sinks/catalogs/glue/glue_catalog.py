"""Catalog plugin ``glue``: registration of tables in the AWS Glue Data Catalog."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pydantic import Field

from headrace_aws.identity_config import IdentityConfig
from headrace_sinks.catalogs.glue.glue_client import GlueClient
from headrace_sinks.catalogs.metastore_catalog import MetastoreCatalog, MetastoreConfig

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class GlueConfig(MetastoreConfig, IdentityConfig):
    """AWS Glue Data Catalog."""

    region: str | None = None
    """AWS region. Default: the region of the environment or the profile."""

    endpoint: str | None = None
    """URL of an emulator or a VPC endpoint."""

    catalog_id: str | None = Field(None, alias="catalog.id", pattern=r"^\d{12}(:.+)?$")
    """Account of the catalog, if it is another account."""


class GlueCatalog(MetastoreCatalog):
    """Plugin of ``sync: {glue: {database: lake}}`` in a file sink."""

    name = "glue"
    api_version = 1
    connect_needs_spark = False
    title, short_title = "AWS Glue", "Glue"
    Config = GlueConfig
    config: GlueConfig

    def __init__(self, config: Any = None, **options: Any) -> None:
        super().__init__(config, **options)
        self._client: GlueClient | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without the client and the cache, for another process."""
        return {**super().__getstate__(), "_client": None}

    def extras(self) -> Sequence[str]:
        return ("aws",)

    def check(self, spark: SparkSession | None = None) -> None:
        self._client = self._client or self._make_client()
        super().check(spark)

    @contextmanager
    def open_client(self) -> Iterator[GlueClient]:
        client = self._client = self._client or self._make_client()
        try:
            yield client
        except Exception:
            self._client = None  # A new client reads the current credentials.
            raise

    def spell_location(self, path: str) -> str:
        """Return a location in the spelling of AWS engines."""
        return re.sub(r"^s3[an]:", "s3:", path).rstrip("/")

    def _make_client(self) -> GlueClient:
        config = self.config
        return GlueClient(config.identity(config.region), endpoint=config.endpoint, catalog_id=config.catalog_id)
