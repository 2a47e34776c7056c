"""Index by which Hudi finds the row of a key. Some of its options cannot change once a table has rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from headrace.sdk import ConfigError, Table, TableMode
from headrace_sinks.hudi.partition_paths import PARTITION

_KIND, _NUMBER = "hoodie.index.type", "hoodie.bucket.index.num.buckets"
_ENGINE, _HASHED = "hoodie.index.bucket.engine", "hoodie.bucket.index.hash.field"
#: Options that make Hudi's commits cluster files.
_CLUSTERING = ("hoodie.clustering.inline", "hoodie.clustering.schedule.inline", "hoodie.clustering.async.enabled")
#: Indexes that find a key only within one partition.
_LOCAL = ("BLOOM", "SIMPLE", "BUCKET", "RECORD_LEVEL_INDEX")
#: Fix for a table whose files are not buckets.
NO_BUCKETS_FIX = (
    "nothing is lost: set `hoodie.index.type: SIMPLE`, which searches all files, or rewrite the table in another `path`"
)


@dataclass(frozen=True)
class Index:
    """Index as configured, with headrace's defaults."""

    #: The configured options of Hudi.
    options: Mapping[str, str]

    @property
    def kind(self) -> str:
        """Type of the index, such as BUCKET."""
        return self._value(_KIND).upper()

    @property
    def partition_columns(self) -> list[str]:
        """Columns by which tables are partitioned."""
        return _list_columns(str(self.options.get(PARTITION, "")))

    @property
    def has_buckets(self) -> bool:
        """Whether the bucket of a key locates its row. A partitioned table must be searched."""
        return self.kind == "BUCKET" and not self.partition_columns

    @property
    def has_fixed_buckets(self) -> bool:
        """Whether the file group of a key never changes, so that clustering is not allowed."""
        return self.kind == "BUCKET" and self._value(_ENGINE).upper() == "SIMPLE"

    def write_options(self) -> dict[str, str]:
        """Return the default options of Hudi's writer for the index; configured options override them."""
        options = {_KIND: self._defaults[_KIND], _NUMBER: self._defaults[_NUMBER]}
        if self.has_fixed_buckets:
            # On request Hudi plans a clustering of such files and then refuses to run it: batches would wait for it forever.
            strategy = "org.apache.hudi.client.clustering.update.strategy.SparkAllowUpdateStrategy"
            options["hoodie.clustering.updates.strategy"] = strategy
            options["hoodie.clustering.rollback.pending.replacecommit.on.conflict"] = "true"
        if self.partition_columns:
            # A row may move to another partition, and a delete need not name the partition of its row.
            options |= {f"hoodie.{kind}.index.update.partition.path": "true" for kind in ("simple", "bloom", "record")}
        return options

    def describe(self) -> str:
        """Describe the layout of the table's files for the metadata of its commits. Only the index BUCKET depends on it."""
        if self.kind != "BUCKET":
            return f"files of the index {self.kind}"
        hashed = f" of {self._value(_HASHED)}" if self._value(_HASHED) else ""
        return f"{self._value(_NUMBER)} buckets{hashed}" if self.has_fixed_buckets else f"buckets that grow{hashed}"

    def check(self) -> None:
        """Raise ConfigError for options that contradict each other."""
        option = next((name for name in _CLUSTERING if self.options.get(name, "").lower() == "true"), None)
        if option and self.has_fixed_buckets:
            raise ConfigError(
                "Hudi does not cluster the files of the index BUCKET, as each file has the keys of one bucket",
                where=f"sink hudi, {option}",
                fix="remove the option: the number of files never exceeds the number of buckets",
            )

    def check_table(self, table: Table, mode: TableMode) -> None:
        """Raise ConfigError for a table whose rows would not be found in other partitions."""
        column = next((c for c in self.partition_columns if c not in table.key), None)
        if mode == "upsert" and column is not None and self.kind in _LOCAL:
            raise ConfigError(
                f"the index {self.kind} searches only the partition that a change names, and deletes and changes of {column!r} "
                "may name another partition than the stored row's",
                where=f"table {table.name}, sink hudi, {_KIND}",
                fix="remove the option, or set GLOBAL_SIMPLE, GLOBAL_BLOOM or RECORD_INDEX; or partition by key columns",
            )

    def check_stored(self, config: Any, described: str | None, name: str) -> None:
        """Raise ConfigError when rows of an existing table would not be found, and a change would add a second row.

        ``config``: the HoodieTableConfig. ``described``: the layout in the metadata of the newest commits, if it is recorded.
        """
        fields = config.getPartitionFields().orElse([])
        columns = [column for field in fields for column in _list_columns(str(field))]
        if columns != self.partition_columns:
            raise ConfigError(
                f"the table is partitioned by {_join(columns)}, and the option names {_join(self.partition_columns)}",
                where=f"table {name}, sink hudi, {PARTITION}",
                fix="restore the previous value, or rewrite the table in another `path`",
            )
        if self.kind == "BUCKET" and described is not None and described != self.describe():
            raise ConfigError(
                f"the rows are in {described}, and the options look for them in {self.describe()}: a change would add a second row",
                where=f"table {name}, sink hudi, {_KIND}",
                fix=f"restore the previous values of this option, `{_NUMBER}`, `{_ENGINE}` and `{_HASHED}`, or rewrite the table in "
                "another `path`",
            )

    def check_files(self, file_ids: Iterable[str], name: str) -> None:
        """Raise ConfigError when an existing table has files that are not fixed buckets."""
        foreign = next((file_id for file_id in file_ids if not self._is_bucket(file_id)), None)
        if foreign is not None:
            raise ConfigError(
                f"file {foreign} is not one of {self.describe()}, and its rows would not be found: the table was clustered, or written "
                "with another index",
                where=f"table {name}, sink hudi, {_KIND}",
                fix=NO_BUCKETS_FIX,
            )

    def _is_bucket(self, file_id: str) -> bool:
        number = file_id[:8]
        return number.isdecimal() and int(number) < int(self._value(_NUMBER))

    def _value(self, option: str) -> str:
        return str(self.options.get(option, self._defaults[option]))

    @property
    def _defaults(self) -> dict[str, str]:
        # docs/decisions: a bucket locates a key without a read.
        kind = "GLOBAL_SIMPLE" if self.partition_columns else "BUCKET"
        return {_KIND: kind, _NUMBER: "4", _ENGINE: "SIMPLE", _HASHED: ""}


def _list_columns(fields: str) -> list[str]:
    """List the columns in the format of Hudi's key generators, such as ``made:timestamp,address.city``."""
    return [field.split(":")[0].split(".")[0].strip() for field in fields.split(",") if field.strip()]


def _join(columns: list[str]) -> str:
    return ", ".join(columns) or "no column"
