"""Sinks: they write and read tables."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from headrace.errors import ConfigError, NoSuchTableError
from headrace.sdk.changes import PREFIX
from headrace.sdk.config import Config
from headrace.sdk.plugin import Plugin

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from headrace.progress.lineage import Dataset
    from headrace.sdk.maintenance import MaintenancePolicy, MaintenanceStep, TableSize
    from headrace.sdk.source import Source

#: Write mode of a batch.
Mode = Literal["upsert", "append"]
#: Mode in the pipeline file: a changelog is appended, with the operation of each change in ``OPERATION``; ``history`` upserts versions of
#: rows; ``both`` upserts the rows, and their versions into a second table.
TableMode = Literal["upsert", "append", "changelog", "history", "both"]
OPERATION = "__op"
#: Number of commits that are searched for a pipeline's newest mark: other writers and maintenance also commit.
MARK_SEARCH_DEPTH = 50


@dataclass(frozen=True)
class Capabilities:
    """Capabilities of a sink; ``headrace.testing.sinks`` tests each one that it claims."""

    #: One row per key, the newest by position. Without it ``mode: upsert`` is rejected before a stream starts.
    upsert: bool = False
    #: Rows are removed. Without it a pipeline with deletes is rejected before a stream starts. A sink without ``upsert`` gets
    #: deletes in mode ``append``, as rows whose DELETED is true.
    delete: bool = False
    #: New columns and struct fields are added; older rows have null there.
    schema_evolution: bool = False
    #: Writing a batch again changes nothing, also in mode ``append``.
    exactly_once: bool = False
    #: ``read_back`` supports ``as_of``. Without it ``as_of`` is a ConfigError.
    time_travel: bool = False
    #: It evaluates its input exactly once, in a Spark SQL action: the batch need not be cached.
    single_pass: bool = False
    #: Two pipelines may write a table at the same time: both commit, or one is rejected with a RetriableError.
    concurrent_writers: bool = False
    #: ``read_back`` returns the rows. Without it no view reads tables of the sink.
    readable: bool = True


@dataclass(frozen=True)
class Table:
    """Target table: its dotted name (``moma.artists``) and its key columns; no key means append."""

    name: str
    key: tuple[str, ...] = ()

    @property
    def parts(self) -> tuple[str, ...]:
        return tuple(self.name.split("."))


@dataclass(frozen=True)
class Batch:
    """Batch that a sink writes. ``mark`` identifies it permanently.

    ``pipeline``: the id of the checkpoint; followed by ``/topic/…`` for batches of one topic, which are counted apart, and by
    ``/replay/…`` for a replay of dead letters.
    """

    pipeline: str
    id: int
    mode: Mode
    #: The table is maintained between batches (``plan_maintenance``): its format need not do so when it commits.
    is_maintained: bool = False
    #: Digest of the offsets that the batch read; empty if the source does not report them.
    digest: str = ""

    @property
    def mark(self) -> str:
        """String in a table's commit by which a sink recognizes a batch that the table already has."""
        return f"{self.mark_prefix}{self.id}:{self.digest}" if self.digest else f"{self.mark_prefix}{self.id}"

    @property
    def mark_prefix(self) -> str:
        """Prefix of the marks of this pipeline's batches. Marks of other pipelines do not have it."""
        return f"{self.pipeline}:"

    def is_applied(self, marks: Iterable[str]) -> bool | None:
        """Return whether a table has the batch. ``marks``: marks of the table's commits, the newest first.

        None if unknown: the table has later batches, or other records under this number, because the checkpoint is older than the
        table, or because column types changed before the batch was repeated. The batch's rows may be in the table, also under another
        number: append only missing rows, or raise ``unknown_error``. Marks without a digest are compared by number.
        """
        newer, is_known = self.id, True
        for mark in dict.fromkeys(marks):
            if mark.startswith(self.mark_prefix):
                number, _, digest = mark.removeprefix(self.mark_prefix).partition(":")
                if int(number) == self.id and (digest == self.digest or not (digest and self.digest)):
                    return True
                is_known, newer = is_known and int(number) < newer, int(number)
        return False if is_known else None

    def unknown_error(self, where: str, way_on: str) -> ConfigError:
        """Return the error for a batch that may already be in a table. ``way_on``: fix without the newest checkpoint."""
        return ConfigError(
            f"the table has later batches than batch {self.id}, or other records under this number: the checkpoint is older than the "
            "table, for example restored from a backup, or column types changed before the batch was repeated; and the table may "
            "already have the records of the batch",
            where=where,
            fix=f"restore the newest checkpoint; or {way_on}",
        )


@dataclass(frozen=True)
class WriteResult:
    """Result of a write."""

    #: Rows inserted or updated; None when unknown without reading the table.
    upserted: int | None = None
    bytes: int | None = None
    #: Version of the table after this write, for ``as_of`` of ``read_back``.
    version: str | None = None
    #: The table already had the batch: nothing was written.
    skipped: bool = False
    #: New columns and widened types of the table, as messages for users.
    schema_changes: Sequence[str] = ()


@dataclass(frozen=True)
class TableVersion:
    """Readable version of a table."""

    #: Value for ``as_of`` of ``read_back``.
    version: str
    #: Time of the commit, in milliseconds since 1970.
    written_ms: int
    #: The table had no rows before this version.
    is_first: bool = False


class SinkConfig(Config):
    """Options of all sinks."""

    name: str | None = None
    """Name of the sink in rules of ``tables:``, commands, progress and metrics. Default: the name of its plugin, with a number for
    further sinks of the plugin (``-2``).
    """

    mode: TableMode | None = None
    """``upsert`` keeps one row per key; ``append`` adds every change; ``changelog`` adds every change, deletes too, with its
    ``op`` in ``__op``; ``history`` keeps every version of a row, with ``valid_from``, ``valid_to`` and ``is_current``; ``both`` keeps one
    row per key, and the versions in a second table, ``TABLE_history``. Default: upsert for rows with a key, changelog for rows
    without one, append for envelopes.
    """

    changes: bool = False
    """Also keep the changes of current rows, with the rows before and after them, in a second table, ``TABLE_changes``, for the time of
    ``history`` in ``maintenance:``.
    """

    track: tuple[str, ...] = ()
    """Columns whose changes start a new version, with ``mode: history`` or ``both``. Changes of other columns update the version. Default:
    all columns.
    """


class Sink(Plugin, ABC):
    """Writer of tables. ``write`` gets rows with the columns POSITION and DELETED of ``headrace.sdk.changes``.

    In mode ``upsert`` a table has one row per key. A row loses against a stored row with a higher position; a row whose DELETED is
    true removes the stored row; other rows replace it completely, with null in missing columns. In mode ``append`` all rows are kept.
    A write is atomic, and writing the same batch again changes nothing.

    For an unsupported value (a type that does not fit its column, an invalid column name) it raises a DataError that names the column,
    and the table stays unchanged.
    """

    Config: ClassVar[type[Config]] = SinkConfig
    capabilities: ClassVar[Capabilities] = Capabilities()
    #: Prefixes of columns that are not business columns.
    hidden_prefixes: ClassVar[tuple[str, ...]] = (PREFIX,)
    #: Names that the format or its readers reserve, in any case: a table with such a column is rejected, as is one with a column that
    #: starts with one of ``hidden_prefixes``.
    reserved_columns: ClassVar[tuple[str, ...]] = ()

    def record_columns(self) -> Collection[str]:
        """Return the columns of an appended row's record that the sink needs, in addition to the row's own columns.

        From ``headrace.sdk.changes``: TOPIC, PARTITION, OFFSET, TIMESTAMP, KEY, HEADERS, RAW, RAW_KEY and TOMBSTONE; those that the source
        does not provide are absent. With TOMBSTONE the sink also gets tombstones, as rows of nulls. HEADERS, RAW and RAW_KEY are the
        record as it arrived: a pipeline whose transforms hide values is rejected.
        """
        return ()

    def place(self) -> str | None:
        """Return the folder of its tables, or ``catalog NAME``, which no other sink of the pipeline may have; None: it is not checked."""
        return None

    def locate(self, table: Table) -> Dataset | None:
        """Return the place of a table for lineage, without a login; None if it is unknown. No server is asked."""
        return None

    def on_idle(self, spark: SparkSession, pipeline: str, writes: Callable[[str], bool]) -> float | None:
        """Do what is due without new rows; return the seconds until the next call, None for no further call.

        Called when a run starts, and between the batches of a continuous run. After a RetriableError the run continues and repeats the
        call; any other error ends the run. ``pipeline``: the id of the checkpoint; ``writes``: name of a table → whether this sink writes it, and
        not one with other options for the table.
        """
        return None

    def plan_maintenance(
        self, spark: SparkSession, table: Table, policy: MaintenancePolicy
    ) -> Iterator[MaintenanceStep]:
        """Yield the maintenance steps that are due for a table; each is planned after the previous one was done or skipped.

        Called between batches, by one thread for all tables of a pipeline; another process may call it during a run: of two concurrent
        commits the later one is rejected and retried. Default: none, for a format that needs no maintenance.
        """
        yield from ()

    def measure_table(self, spark: SparkSession, table: Table) -> TableSize | None:
        """Return the size of a table; None when the table does not exist or its size is unknown."""
        return None

    def check_source(self, source: Source, tables: Iterable[str], spark: SparkSession | None = None) -> None:
        """Raise ConfigError if the source reads the records that the sink writes for one of ``tables``: a loop without an end.

        Called without a session before a stream starts, and with one before the first write of a table. The default compares the places
        that ``locate`` returns.
        """
        read = {place: topic for topic in source.named_topics() if (place := source.locate(topic)) is not None}
        for table in tables:
            if (place := self.locate(Table(table))) in read:
                raise ConfigError(
                    f"the source reads the table {read[place]}, to which the sink writes: each row would return without an end",
                    where=f"sink {self.name}, table {table}",
                    fix="set `target` under `tables:` to another name, or write to another folder or catalog",
                )

    def check_table(self, table: Table, mode: TableMode) -> None:
        """Raise ConfigError for a table that the sink cannot maintain correctly with its options. Called before any read or write.

        ``mode``: ``upsert`` for versions of rows too, whose table has their key.
        """

    def check_columns(self, spark: SparkSession, table: Table, columns: Collection[str]) -> None:
        """Raise DataError for the name of a column or nested field that the sink, the table or one of its readers does not support."""

    def check_new(self, table: Table, columns: Collection[str]) -> None:
        """Raise ConfigError for a table with these columns that the sink cannot create (``headrace check``)."""

    def check_stored(self, spark: SparkSession, table: Table) -> str | None:
        """Raise ConfigError for an existing table that contradicts the sink's options (``headrace check``); nothing is written.

        Return the changes by which the next batch continues a table of another writer; None for other tables. The rows of such a table
        did not pass the transforms, so it is rejected if they hide columns.
        """

    def find_unsupported(self, spark: SparkSession, table: Table, mode: TableMode, row: StructType) -> Column | None:
        """Return a condition that is true for changes that the table cannot hold, such as a value that cannot be a folder's name.

        They become dead letters. ``row``: the row's columns; the condition may also use DELETED. None: the table holds all changes.
        """
        return None

    @abstractmethod
    def write(self, table: Table, rows: DataFrame, batch: Batch) -> WriteResult:
        """Apply ``rows`` in the rows' own session; create the table when it does not exist.

        A RetriableError is retried with the same arguments.
        """

    @abstractmethod
    def read_back(self, spark: SparkSession, table: Table, as_of: str | None = None) -> DataFrame:
        """Return the table as readers see it, with headrace's columns. ``as_of``: a timestamp or a version.

        NoSuchTableError when there is no such table: headrace then creates it. ConfigError when there is no such version. Raises any
        other error for a table that exists and cannot be read.
        """

    def find_version(self, spark: SparkSession, table: Table) -> str | None:
        """Return the version that readers see, for ``as_of`` of ``read_back``; None without a table, and when versions are unknown."""
        return None

    def list_versions(self, spark: SparkSession, table: Table) -> Sequence[TableVersion]:
        """Return the versions that ``read_back`` reads, in the order of their commits; empty without a table, and when they are unknown.

        Versions with the same rows as the version before may be left out.
        """
        return ()

    def read_or_none(self, spark: SparkSession, table: Table) -> DataFrame | None:
        """Return the table as readers see it, None when it does not exist. Errors other than NoSuchTableError are raised."""
        try:
            return self.read_back(spark, table)
        except NoSuchTableError:
            return None
