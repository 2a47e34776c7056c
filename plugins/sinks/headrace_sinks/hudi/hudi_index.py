"""How Hudi finds the row of a key, and what of that cannot be otherwise once a table has rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from headrace.sdk import ConfigError, Table, TableMode

PARTITION = "hoodie.datasource.write.partitionpath.field"
_KIND, _NUMBER = "hoodie.index.type", "hoodie.bucket.index.num.buckets"
_ENGINE, _HASHED = "hoodie.index.bucket.engine", "hoodie.bucket.index.hash.field"
#: What has Hudi's commits cluster files.
_CLUSTERING = ("hoodie.clustering.inline", "hoodie.clustering.schedule.inline", "hoodie.clustering.async.enabled")
#: Indexes that know a key inside one partition only.
_LOCAL = ("BLOOM", "SIMPLE", "BUCKET", "RECORD_LEVEL_INDEX")
#: What to do about a table whose files are no buckets.
NO_BUCKETS_FIX = (
    "nothing is lost: write `hoodie.index.type: SIMPLE`, by which rows are looked for in all files; or have the table written anew in "
    "another `path`"
)


@dataclass(frozen=True)
class Index:
    """What the user's options say of it, and what follows from them."""

    #: Options of Hudi's, as the user has them.
    options: Mapping[str, str]

    @property
    def kind(self) -> str:
        return self._value(_KIND).upper()

    @property
    def partition_columns(self) -> list[str]:
        """Those of tables that are partitioned."""
        return _list_columns(str(self.options.get(PARTITION, "")))

    @property
    def has_buckets(self) -> bool:
        """Whether a key's bucket says where its row is; a partitioned table has to be searched."""
        return self.kind == "BUCKET" and not self.partition_columns

    @property
    def has_fixed_buckets(self) -> bool:
        """Whether a key's file stays the same for ever, which no clustering may change."""
        return self.kind == "BUCKET" and self._value(_ENGINE).upper() == "SIMPLE"

    def write_options(self) -> dict[str, str]:
        """The index, as Hudi's writer takes it, unless the user says otherwise."""
        options = {_KIND: self._defaults[_KIND], _NUMBER: self._defaults[_NUMBER]}
        if self.has_fixed_buckets:
            # Hudi plans to cluster such files if somebody asks for it, and then refuses to: batches would wait for it for ever.
            strategy = "org.apache.hudi.client.clustering.update.strategy.SparkAllowUpdateStrategy"
            options["hoodie.clustering.updates.strategy"] = strategy
            options["hoodie.clustering.rollback.pending.replacecommit.on.conflict"] = "true"
        if self.partition_columns:
            # A row may move to another partition, and a delete need not say in which one its row is.
            options |= {f"hoodie.{kind}.index.update.partition.path": "true" for kind in ("simple", "bloom", "record")}
        return options

    def describe(self) -> str:
        """In what the rows of a table lie, for the notes of its commits: what finds keys by reading finds them in anything."""
        if self.kind != "BUCKET":
            return f"files of the index {self.kind}"
        hashed = f" of {self._value(_HASHED)}" if self._value(_HASHED) else ""
        return f"{self._value(_NUMBER)} buckets{hashed}" if self.has_fixed_buckets else f"buckets that grow{hashed}"

    def check(self) -> None:
        """ConfigError for options that contradict each other."""
        option = next((name for name in _CLUSTERING if self.options.get(name, "").lower() == "true"), None)
        if option and self.has_fixed_buckets:
            raise ConfigError(
                "Hudi does not cluster files of the index BUCKET, whose every file has the keys of a bucket",
                where=f"sink hudi, {option}",
                fix="leave the option out: there are never more files than buckets",
            )

    def check_table(self, table: Table, mode: TableMode) -> None:
        """ConfigError for a table whose rows would not be found in other partitions."""
        column = next((c for c in self.partition_columns if c not in table.key), None)
        if mode == "upsert" and column is not None and self.kind in _LOCAL:
            raise ConfigError(
                f"the index {self.kind} looks for a row in the partition that a change names, and neither a delete nor a change of "
                f"{column!r} names the one where the row is",
                where=f"table {table.name}, sink hudi, {_KIND}",
                fix="leave the option out, or write GLOBAL_SIMPLE, GLOBAL_BLOOM or RECORD_INDEX; or partition by key columns",
            )

    def check_stored(self, config: Any, described: str | None, name: str) -> None:
        """ConfigError for a table that is there and whose rows would not be found, so that a change would make a second one.

        ``config``: Hudi's own object. ``described``: as its newest commits say; None where they do not.
        """
        fields = config.getPartitionFields().orElse([])
        columns = [column for field in fields for column in _list_columns(str(field))]
        if columns != self.partition_columns:
            raise ConfigError(
                f"it is partitioned by {_tell(columns)}, and {_tell(self.partition_columns)} is asked for",
                where=f"table {name}, sink hudi, {PARTITION}",
                fix="write the option as it was, or have the table written anew in another `path`",
            )
        if self.kind == "BUCKET" and described is not None and described != self.describe():
            raise ConfigError(
                f"its rows lie in {described}, and would not be found in {self.describe()}: a change would make a second row",
                where=f"table {name}, sink hudi, {_KIND}",
                fix=f"write this option, `{_NUMBER}`, `{_ENGINE}` and `{_HASHED}` as they were; or have the table written anew in "
                "another `path`",
            )

    def check_files(self, file_ids: Iterable[str], name: str) -> None:
        """ConfigError where a table that is there has files that are none of the fixed buckets."""
        stranger = next((one for one in file_ids if not self._is_bucket(one)), None)
        if stranger is not None:
            raise ConfigError(
                f"its file {stranger} is none of {self.describe()}, in which alone rows would be found: somebody clustered the table, or "
                "wrote to it with another index",
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
        # docs/decisions: a bucket finds a key without reading.
        kind = "GLOBAL_SIMPLE" if self.partition_columns else "BUCKET"
        return {_KIND: kind, _NUMBER: "4", _ENGINE: "SIMPLE", _HASHED: ""}


def _list_columns(fields: str) -> list[str]:
    """Of ``country``, ``made:timestamp,address.city`` and the like, as Hudi's key generators have them; none of an empty text."""
    return [field.split(":")[0].split(".")[0].strip() for field in fields.split(",") if field.strip()]


def _tell(columns: list[str]) -> str:
    return ", ".join(columns) or "no column"
