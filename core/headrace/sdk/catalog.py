"""Catalogs: where engines look up tables that a sink keeps as files, and how a sink's config names one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from headrace.sdk.plugin import Plugin
from headrace.sdk.plugin_block import nested_plugin

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

#: The values of a partition's columns, as texts → the folder where its files are.
Partitions = Mapping[tuple[str, ...], str]


@dataclass(frozen=True)
class Storage:
    """By which classes engines of Hive's kind read files, and by which ``provider`` Spark does."""

    provider: str
    input_format: str
    output_format: str
    serde: str
    serde_properties: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class CatalogTable:
    """A table as readers are to find it. ``partition_by``: its columns of partitions; one that ``schema`` lacks is a text."""

    location: str
    schema: StructType
    storage: Storage
    partition_by: tuple[str, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)


class Catalog(Plugin, ABC):
    """``sync: {NAME: {…}}`` of a sink whose tables are files."""

    @abstractmethod
    def register(
        self,
        name: str,
        describe: Callable[[], CatalogTable],
        written: Partitions,
        list_partitions: Callable[[], Partitions],
    ) -> None:
        """Makes what readers find under a dotted name what the table is. Called after each commit: asks no service when nothing changed.

        ``describe``, ``list_partitions``: the table and all of its partitions as they are now. Called after the catalog was looked
        at, so that of two writers the slower does not put back what the other has changed. ``written``: the partitions of the
        commit. A RetriableError is tried again, with the batch, which the table has already.
        """


#: The type of the field of a sink's config that names one: ``sync: Sync = None``.
Sync = Annotated[
    Catalog | None,
    nested_plugin("catalog", "catalog"),
    Field(json_schema_extra={"x-plugin-block": "catalog"}),
]
