"""Options of the sink ``iceberg``."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field, field_validator, model_validator

from headrace.sdk import SinkConfig
from headrace_sinks.iceberg.catalog_properties import CatalogProperties
from headrace_sinks.iceberg.iceberg_readers import load_readers
from headrace_sinks.iceberg.iceberg_table_options import TableType
from headrace_sinks.iceberg.partition_fields import PartitionField
from headrace_sinks.reader_support import check_readers


class IcebergConfig(SinkConfig):
    """Options of the sink ``iceberg``. Table properties pass through and are set when a table is created."""

    passthrough: ClassVar[tuple[str, ...]] = (
        "write.*", "commit.*", "history.*", "read.*", "format-version", "gc.*", "compatibility.*", "snapshot-property.*", "schema.*", "encryption.*",
    )  # fmt: skip

    warehouse: str | None = None
    """Folder of the tables, without a catalog service (Iceberg's ``hadoop`` catalog)."""

    catalog: str | None = None
    """Name of a catalog of the Spark session, instead of ``warehouse``."""

    catalog_properties: CatalogProperties = Field(default_factory=dict, alias="catalog.properties")
    """Properties of that catalog (``type``, ``uri``, ``warehouse``, …), set when headrace builds the session."""

    table_type: TableType = Field("merge-on-read", alias="table.type")
    """How rows are replaced: merge-on-read is faster to write, copy-on-write is faster to read. With ``readers`` the default is
    merge-on-read if all of them support it.
    """

    readers: tuple[str, ...] = ()
    """Query engines that read the tables (``[spark, athena, pyiceberg]``). New tables use only features that all of them support."""

    partition_by: dict[str, tuple[str, ...]] | tuple[str, ...] = Field(default_factory=dict, alias="partition.by")
    """Partitioning of new tables. Table name or glob → fields: a column, ``years``, ``months``, ``days`` or ``hours`` of
    a column, or ``bucket(16, column)``. The first rule that matches applies. A list of fields applies to all tables.
    """

    @field_validator("partition_by")
    @classmethod
    def _check_fields(
        cls, rules: dict[str, tuple[str, ...]] | tuple[str, ...]
    ) -> dict[str, tuple[str, ...]] | tuple[str, ...]:
        for fields in rules.values() if isinstance(rules, dict) else [rules]:
            for field in fields:
                PartitionField.parse(field)
        return rules

    @field_validator("readers")
    @classmethod
    def _check_readers(cls, readers: tuple[str, ...]) -> tuple[str, ...]:
        check_readers(readers, load_readers(), "Iceberg")
        return readers

    @property
    def partition_rules(self) -> dict[str, tuple[str, ...]]:
        """Table name or glob → fields."""
        return self.partition_by if isinstance(self.partition_by, dict) else {"*": self.partition_by}

    @model_validator(mode="after")
    def _check_location(self) -> IcebergConfig:
        if bool(self.warehouse) == bool(self.catalog):
            raise ValueError("set either `warehouse:` (a folder) or `catalog:` (a catalog of the session)")
        return self
