"""Catalogs in which query engines find tables that a sink keeps as files."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from headrace.sdk.plugin import Plugin
from headrace.sdk.plugin_block import plugin_validator

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

#: Values of a partition's columns, as strings → folder of its files.
Partitions = Mapping[tuple[str, ...], str]


@dataclass(frozen=True)
class Storage:
    """Hive classes that query engines use to read files, and Spark's ``provider``."""

    provider: str
    input_format: str
    output_format: str
    serde: str
    serde_properties: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class CatalogTable:
    """Table as a catalog describes it. ``partition_by``: partition columns. Partition columns that are not in ``schema`` are strings."""

    location: str
    schema: StructType
    storage: Storage
    partition_by: tuple[str, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)


class Catalog(Plugin, ABC):
    """Catalog of a sink whose tables are files: ``sync: {NAME: {…}}``."""

    @abstractmethod
    def register(
        self,
        name: str,
        describe: Callable[[], CatalogTable],
        written: Partitions,
        list_partitions: Callable[[], Partitions],
    ) -> None:
        """Make the catalog's table equal to the table in storage. Called after each commit; sends no request when nothing changed.

        ``describe``, ``list_partitions``: return the current table and all its partitions. Read the catalog before you call them: then the
        slower of two concurrent writers does not revert the other's change. ``written``: the partitions of the commit. After a
        RetriableError headrace repeats the batch; the table already contains its rows.
        """


#: Type of the option that holds a catalog: ``sync: Sync = None``.
Sync = Annotated[
    Catalog | None,
    plugin_validator("catalog", "catalog"),
    Field(json_schema_extra={"x-plugin-block": "catalog"}),
]
