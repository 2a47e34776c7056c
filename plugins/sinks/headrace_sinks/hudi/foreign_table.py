"""Hudi tables of other writers, such as Hudi Streamer: their differences from headrace's tables.

Their rows have no position, and headrace's order needs one. ``table_takeover`` adds it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headrace.sdk import Batch, ConfigError, Table
from headrace.sdk.changes import POSITION
from headrace.sdk.columns import fold_name
from headrace_sinks.hudi import hudi_schema, hudi_timeline
from headrace_sinks.hudi.file_slices import list_file_slices
from headrace_sinks.hudi.hudi_index import Index
from headrace_sinks.hudi.hudi_table_options import TYPE, HudiTableOptions
from headrace_sinks.hudi.partition_paths import PARTITION
from headrace_sinks.hudi.record_keys import list_record_key

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OPTION = "take.over"
#: Fix for what a takeover does not change.
_NEW_TABLE = "load the rows into a new table"
#: Key generators whose record keys and partition paths consist of the values of columns, by class and by type.
_GENERATORS = ("SimpleKeyGenerator", "ComplexKeyGenerator", "NonpartitionedKeyGenerator")
_GENERATOR_TYPES = ("SIMPLE", "COMPLEX", "NON_PARTITION")
#: The oldest table version that Hudi 1.2 upgrades.
_OLDEST_VERSION = 6
#: The first version in which log files may be written during a compaction.
_CONCURRENT_VERSION = 8


def open_existing(spark: SparkSession, path: str, table: Table, *, takes_over: bool) -> Any | None:
    """Return the HoodieTableMetaClient of the table at a path; None without a table. ConfigError without one if it is to be taken over."""
    if hudi_timeline.has_table(spark, path):
        return hudi_timeline.open_table(spark, path)
    if takes_over:
        raise ConfigError(
            f"there is no table to take over in {path}",
            where=f"table {table.name}, sink hudi, {OPTION}",
            fix=f"correct `path`, or `target` under `tables:`; if a new table is intended, remove `{OPTION}`",
        )
    return None


def check_only_pipeline(commits: hudi_timeline.NewestCommits, batch: Batch, table: Table, *, takes_over: bool) -> None:
    """Raise ConfigError if the newest batches of a table that is to be taken over are all of other pipelines."""
    if not takes_over:
        return
    own = batch.pipeline.partition("/")[0]
    pipelines = {re.split("[/:]", mark)[0] for mark in hudi_timeline.list_marks(commits)}
    if pipelines and own not in pipelines:
        raise ConfigError(
            "another pipeline of headrace, or this one with another checkpoint, writes the table",
            where=f"table {table.name}, sink hudi, {OPTION}",
            fix=f"give the table another `path` or `target`; to write into it nevertheless, remove `{OPTION}`",
        )


@dataclass(frozen=True)
class Expected:
    """Table as the sink would write it."""

    table: Table
    #: The configured options of Hudi, and the configured table type.
    options: Mapping[str, str]
    table_options: HudiTableOptions
    index: Index


@dataclass(frozen=True)
class ForeignTable:
    """Existing table without positions. ``stored``: its HoodieTableMetaClient."""

    stored: Any
    expected: Expected

    spark: SparkSession

    @classmethod
    def find(cls, spark: SparkSession, stored: Any, expected: Expected) -> ForeignTable | None:
        """Return the table if another writer created it; None for headrace's tables, and before the first commit."""
        columns = hudi_schema.read_schema(spark, stored)
        return None if columns is None or POSITION in columns.names else cls(stored, expected, spark)

    @property
    def version(self) -> int:
        """Table version."""
        return int(self._config.getTableVersion().versionCode())

    @property
    def next_version(self) -> int:
        """Table version after the first batch. Hudi does not downgrade a table in a write."""
        return max(self.version, self.expected.table_options.new_version)

    @property
    def ordering(self) -> list[str]:
        """Fields by which the other writer ordered rows."""
        return [str(field) for field in self._config.getOrderingFields()]

    @property
    def record_key(self) -> list[str]:
        """Columns of the record key; empty if Hudi generated the keys."""
        return list_record_key(self._config)

    @property
    def is_merge_on_read(self) -> bool:
        """Whether the table may have log files."""
        return str(self.stored.getTableType()) == "MERGE_ON_READ"

    def check(self, *, takes_over: bool) -> None:
        """Raise ConfigError that lists all differences, if the table cannot be taken over or the option is not set."""
        obstacles = [f"{what} ({fix})" for what, fix in self._find_obstacles()]
        where = f"table {self.expected.table.name}, sink hudi, {OPTION}"
        new_path = "load the rows into a new table in another `path`"
        if obstacles:
            raise ConfigError(
                f"another writer created the table, and headrace cannot continue it: {'; '.join(obstacles)}",
                where=where,
                fix=f"correct the options as above, or {new_path}",
            )
        if not takes_over:
            raise ConfigError(
                f"another writer created the table: {'; '.join(self._list_changes())}",
                where=where,
                fix=f"to continue the table, stop the other writer and set `{OPTION}: true`; otherwise {new_path}",
            )

    def describe(self) -> str:
        """Describe the takeover for ``headrace check``."""
        columns = self.expected.index.partition_columns
        kept = [f"record key {','.join(self.record_key)}", f"key generator {self._generator or 'of the default'}"]
        kept += [f"partition path {','.join(columns)}" if columns else "no partitions", str(self.stored.getTableType())]
        changed = "; ".join(self._list_changes())
        return f"the first batch takes it over from another writer: {changed}. Unchanged: {', '.join(kept)}"

    def _list_changes(self) -> Iterator[str]:
        """List the differences that a takeover removes."""
        yield f"its rows have no `{POSITION}` and are ordered by {', '.join(self.ordering) or 'no field'}"
        if merges := self._property("hoodie.compaction.payload.class", "hoodie.record.merge.mode"):
            yield f"they are merged by {merges.rpartition('.')[2]}"
        if self.version != self.next_version:
            yield f"its table version is {self.version}, and headrace writes {self.next_version}"
        if self._property("hoodie.table.metadata.partitions"):
            yield "it has a metadata table, which headrace does not write unless `hoodie.metadata.enable` is true"

    def _find_obstacles(self) -> Iterator[tuple[str, str]]:
        """Find what a takeover does not change: pairs of the difference and the fix."""
        yield from self._find_version_obstacles()
        yield from self._find_key_obstacles()
        yield from self._find_layout_obstacles()
        yield from self._find_pending_writes()
        yield from self._find_payload_obstacles()

    def _find_payload_obstacles(self) -> Iterator[tuple[str, str]]:
        """Find log files that Hudi cannot merge, because it does not have the class that merges them."""
        payload = self._property("hoodie.compaction.payload.class")
        if not (payload and self.is_merge_on_read) or self._can_load(payload):
            return
        if any(item.logs for item in list_file_slices(self.spark, self.stored)):
            yield (
                f"the payload class {payload} of its log files is not on the class path",
                "complete a compaction of all log files with the other writer, or add the jar of the class to `spark.jars`",
            )

    def _can_load(self, name: str) -> bool:
        from py4j.protocol import Py4JJavaError

        jvm: Any = self.spark._jvm  # noqa: SLF001
        try:
            jvm.java.lang.Thread.currentThread().getContextClassLoader().loadClass(name)
        except Py4JJavaError:
            return False
        return True

    def _find_pending_writes(self) -> Iterator[tuple[str, str]]:
        """Find an incomplete write of the other writer. Compactions are completed, and a repeated takeover rolls back its own write."""
        timeline = self.stored.getActiveTimeline().getCommitsTimeline().filterPendingExcludingCompaction()
        pending = timeline.firstInstant()
        if pending.isPresent() and POSITION not in self.ordering:
            name = f"{pending.get().getAction()} {pending.get().requestedTime()}"
            yield f"its {name} is not complete", "stop the other writer after it has completed its last write"

    def _find_version_obstacles(self) -> Iterator[tuple[str, str]]:
        if self.version < _OLDEST_VERSION:
            fix = f"upgrade it with Hudi 0.14 or 0.15: `CALL upgrade_table(…, to_version => '{_OLDEST_VERSION}')`"
            yield f"its table version {self.version} is older than {_OLDEST_VERSION}", fix
        elif self.is_merge_on_read and self.next_version < _CONCURRENT_VERSION:
            yield (
                f"table version {self.next_version} loses log files that are written during a compaction",
                "allow a newer version in `readers` and `hoodie.write.table.version`",
            )

    def _find_key_obstacles(self) -> Iterator[tuple[str, str]]:
        keys = self.record_key
        if not keys:
            yield "its rows have keys that Hudi generated", _NEW_TABLE
        elif sorted(map(fold_name, keys)) != sorted(map(fold_name, self.expected.table.key)):
            yield (
                f"its record key is {','.join(keys)}, and the key of the events is {','.join(self.expected.table.key) or 'empty'}",
                f"set `key: [{', '.join(keys)}]` under `tables:`",
            )
        if self._property("hoodie.populate.meta.fields") == "false":
            yield "`hoodie.populate.meta.fields` is false, and no index finds its rows", _NEW_TABLE
        if (generator := self._generator) and generator.removesuffix("_AVRO").replace("AvroKey", "Key") not in (
            *_GENERATORS,
            *_GENERATOR_TYPES,
        ):
            yield f"its key generator {generator} computes keys or partition paths", _NEW_TABLE

    def _find_layout_obstacles(self) -> Iterator[tuple[str, str]]:
        columns = [str(field) for field in self._config.getPartitionFields().orElse([]) if field]
        if columns != self.expected.index.partition_columns:
            option = f"set `{PARTITION}: {','.join(columns)}`" if columns else f"remove `{PARTITION}`"
            yield (
                f"it is partitioned by {', '.join(columns) or 'no column'}, and the option names another value",
                option,
            )
        elif self.expected.index.kind == "BUCKET":
            kind = "GLOBAL_SIMPLE" if columns else "SIMPLE"
            yield "the index BUCKET does not find rows in its files", f"set `hoodie.index.type: {kind}`"
        if self._property("hoodie.datasource.write.drop.partition.columns") == "true":
            yield "its files have no partition columns", _NEW_TABLE
        table_type, stored = (
            self.expected.table_options.table_type or self.expected.options.get(TYPE),
            str(self.stored.getTableType()),
        )
        if table_type and table_type != stored:
            yield f"it is {stored}, and `table.type` is {table_type}", f"set `table.type: {stored}`"

    @property
    def _config(self) -> Any:
        return self.stored.getTableConfig()

    @property
    def _generator(self) -> str:
        """Class, or type, of the key generator; empty for Hudi's default."""
        name = self._property("hoodie.table.keygenerator.class", "hoodie.table.keygenerator.type")
        return name.rpartition(".")[2]

    def _property(self, *names: str) -> str:
        """Return the value of the first property that the table has; otherwise an empty string."""
        properties = self._config.getProps()
        return next((str(value) for name in names if (value := properties.getProperty(name)) is not None), "")
