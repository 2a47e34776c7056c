"""Sinks: where tables are kept."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from headrace.config.base import Config
from headrace.contracts.changes import PREFIX
from headrace.contracts.plugin import Plugin

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Mode = Literal["upsert", "append"]


@dataclass(frozen=True)
class Capabilities:
    """What a sink can keep; the conformance kit tests each that it claims."""

    upsert: bool = False
    delete: bool = False
    schema_evolution: bool = False
    exactly_once: bool = False
    time_travel: bool = False
    #: It evaluates its input exactly once, inside a Spark SQL action: the batch need not be cached for it.
    single_pass: bool = False


@dataclass(frozen=True)
class Table:
    """A target: its dotted name (``moma.artists``) and its key columns; no key means append."""

    name: str
    key: tuple[str, ...] = ()

    @property
    def parts(self) -> tuple[str, ...]:
        return tuple(self.name.split("."))


@dataclass(frozen=True)
class Batch:
    """What a sink knows of the batch: ``pipeline`` and ``id`` together name it for ever."""

    pipeline: str
    id: int
    mode: Mode


@dataclass(frozen=True)
class Written:
    """What became of a write."""

    #: Rows inserted or updated; None when the sink cannot know without reading the table.
    upserted: int | None = None
    bytes: int | None = None
    #: What ``read_back`` takes as ``as_of`` to see the table as it was after this write.
    version: str | None = None
    #: The batch was in the table already: nothing was written.
    skipped: bool = False


class SinkConfig(Config):
    """Options that every sink has."""

    #: ``upsert`` keeps one row per key; ``append`` adds every change. Default: upsert for rows, append for envelopes.
    mode: Mode | None = None


class Sink(Plugin, ABC):
    """Writes tables. ``write`` gets rows with the columns POSITION and DELETED of ``headrace.contracts.changes``.

    In mode ``upsert`` there is one row per key. A row loses against a stored one of a higher position; a row whose
    DELETED is true removes the stored one. Writing the same batch again changes nothing.
    """

    Config: ClassVar[type[Config]] = SinkConfig
    capabilities: ClassVar[Capabilities] = Capabilities()
    #: Columns that begin so are not the business's.
    hidden_prefixes: ClassVar[tuple[str, ...]] = (PREFIX,)

    @abstractmethod
    def write(self, table: Table, rows: DataFrame, batch: Batch) -> Written:
        """Applies ``rows`` in the rows' own session."""

    @abstractmethod
    def read_back(self, spark: SparkSession, table: Table, as_of: str | None = None) -> DataFrame:
        """The table as a reader sees it, headrace's columns included. ``as_of``: a timestamp or a version."""
