"""Sinks: where tables are kept."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from headrace.errors import ConfigError
from headrace.sdk.changes import PREFIX
from headrace.sdk.config import Config
from headrace.sdk.plugin import Plugin

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from pyspark.sql import DataFrame, SparkSession

    from headrace.sdk.maintenance import MaintenancePolicy, MaintenanceStep, TableSize

#: What a sink is asked to do with a batch.
Mode = Literal["upsert", "append"]
#: What a pipeline asks for: a changelog is appended, with what each change did in ``OPERATION``.
TableMode = Literal["upsert", "append", "changelog"]
OPERATION = "__op"
#: Commits that are searched for a pipeline's newest mark: other writers and maintenance commit in between.
MARK_SEARCH_DEPTH = 50


@dataclass(frozen=True)
class Capabilities:
    """What a sink can keep; ``headrace.testing.sinks`` tests each that it claims."""

    #: One row per key, the newest by position. Without it ``mode: upsert`` is refused before a stream starts.
    upsert: bool = False
    #: Rows are removed. Without it a pipeline that asks for deletes is refused before a stream starts.
    delete: bool = False
    #: New columns, of structs too, are added; older rows have null there.
    schema_evolution: bool = False
    #: A batch that is written again changes nothing, also in mode ``append``.
    exactly_once: bool = False
    #: ``read_back`` takes ``as_of``. Without it ``as_of`` is a ConfigError.
    time_travel: bool = False
    #: It evaluates its input exactly once, inside a Spark SQL action: the batch need not be cached for it.
    single_pass: bool = False
    #: Two pipelines may write a table at the same time: both are in, or one is refused with a RetriableError.
    concurrent_writers: bool = False


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
    #: What is due for the table is done between batches (``plan_maintenance``): its format need not do it when it commits.
    is_maintained: bool = False

    @property
    def mark(self) -> str:
        """The text by which a sink recognises a batch that it has: a table keeps it in the commit of the batch."""
        return f"{self.mark_prefix}{self.id}"

    @property
    def mark_prefix(self) -> str:
        """What the marks of all batches of this pipeline begin with, and no other pipeline's."""
        return f"{self.pipeline}:"


@dataclass(frozen=True)
class WriteResult:
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

    mode: TableMode | None = None
    """``upsert`` keeps one row per key; ``append`` adds every change; ``changelog`` adds every change, deletes too, with its
    ``op`` in ``__op``. Default: upsert for rows with a key, changelog for rows without one, append for envelopes.
    """


class Sink(Plugin, ABC):
    """Writes tables. ``write`` gets rows with the columns POSITION and DELETED of ``headrace.sdk.changes``.

    In mode ``upsert`` there is one row per key. A row loses against a stored one of a higher position; a row whose
    DELETED is true removes the stored one; the others replace it whole, with null in columns that they lack. In mode
    ``append`` every row is kept. A write happens whole or not at all, and writing the same batch again changes nothing.

    What a table cannot hold (a type that does not fit its column's, a name that the format does not know) is a DataError
    that names the column, and the table stays as it was.
    """

    Config: ClassVar[type[Config]] = SinkConfig
    capabilities: ClassVar[Capabilities] = Capabilities()
    #: Columns that begin so are not the business's.
    hidden_prefixes: ClassVar[tuple[str, ...]] = (PREFIX,)
    #: Names that the format or its readers have for themselves, in any case: a table with such a column is refused, as is one
    #: with a column that begins with one of ``hidden_prefixes``.
    reserved_columns: ClassVar[tuple[str, ...]] = ()

    def record_columns(self) -> Collection[str]:
        """What it wants to know of the record that an appended row is from, beside the row's own columns.

        Of ``headrace.sdk.changes``: TOPIC, PARTITION, OFFSET, TIMESTAMP, KEY, HEADERS, RAW, RAW_KEY and TOMBSTONE; those that the
        source has not are absent. With TOMBSTONE it is given tombstones too, as rows of nulls. HEADERS, RAW and RAW_KEY are the record
        as it came: a pipeline whose transforms hide values is refused.
        """
        return ()

    def on_idle(self, spark: SparkSession, pipeline: str) -> float | None:
        """Does what is due without new rows; the seconds until it wants to be asked again, None for never.

        Asked when a run begins and, as often as it says, between the batches of one that goes on. ``pipeline``: as in ``Batch``.
        """
        return None

    def plan_maintenance(
        self, spark: SparkSession, table: Table, policy: MaintenancePolicy
    ) -> Iterator[MaintenanceStep]:
        """The steps that are due for a table, each looked for when the one before it was done, or was left out.

        Asked between batches, by one thread for all tables of a pipeline; also by another process beside a run: of two commits
        the later one is refused, and tried again. None by default: a format that maintains itself, or need not be.
        """
        yield from ()

    def measure_table(self, spark: SparkSession, table: Table) -> TableSize | None:
        """How large a table is; None when there is none, or the sink does not know."""
        return None

    def check_table(self, table: Table, mode: TableMode) -> None:
        """Raises ConfigError for a table that it could not keep right with its options. Nothing was read or written yet."""

    def check_columns(self, table: Table, columns: Collection[str]) -> None:
        """Raises DataError for the name of a column that it, or whoever reads the table, cannot have."""

    def check_stored(self, spark: SparkSession, table: Table) -> None:
        """Raises ConfigError for a table that is there and contradicts its options (``headrace check``); nothing is written."""

    @abstractmethod
    def write(self, table: Table, rows: DataFrame, batch: Batch) -> WriteResult:
        """Apply ``rows`` in the rows' own session; creates the table when it is not there.

        A RetriableError is tried again with the same arguments.
        """

    @abstractmethod
    def read_back(self, spark: SparkSession, table: Table, as_of: str | None = None) -> DataFrame:
        """The table as a reader sees it, headrace's columns included. ``as_of``: a timestamp or a version.

        ConfigError when there is no such table or version.
        """

    def read_or_none(self, spark: SparkSession, table: Table) -> DataFrame | None:
        """The table as a reader sees it; None when there is none. An error that is no ConfigError is raised."""
        try:
            return self.read_back(spark, table)
        except ConfigError:
            return None
