"""What new tables are like, so that all readers read them right; and what of a table that is there contradicts them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from headrace.sdk import ConfigError
from headrace_sinks.iceberg.iceberg_readers import READERS
from headrace_sinks.iceberg.table_handle import TableHandle
from headrace_sinks.reader_support import Support, all_read, incompatible_readers, join, tell, unknown

TableType = Literal["merge-on-read", "copy-on-write"]
#: Format version → the field of a reader that says what it makes of that which merge-on-read writes there.
_DELETES = {"2": "position_deletes", "3": "deletion_vectors"}
_MODES = tuple(f"write.{action}.mode" for action in ("merge", "update", "delete"))
_WHERE = "sink iceberg"
#: Spark's procedure writes files without the rows that any kind of delete file names.
_REWRITE = "CALL CATALOG.system.rewrite_data_files(table => {name!r}, options => map('delete-file-threshold', '1'))"


@dataclass(frozen=True)
class IcebergTableOptions:
    """What the user says of new tables, and what follows for them from those that read them."""

    readers: Sequence[str] = ()
    #: As the user has it.
    table_type: TableType | None = None
    #: Table properties of the user's.
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def reads_equality_deletes(self) -> bool:
        """Whether all that read the tables are known, and known to read equality deletes."""
        return bool(self.readers) and all_read(self._facts("equality_deletes"))

    def properties(self) -> dict[str, str]:
        """Format version and modes of new tables. ConfigError where the user asks for what a reader does not read right."""
        version = self._version
        if self.readers and version not in _DELETES:
            raise ConfigError(
                f"headrace does not know which readers read format version {version}",
                where=f"{_WHERE}, format-version",
                fix="leave it out: new tables have format version 2",
            )
        facts, deletes = self._deletes(version)
        if version == "3" and incompatible_readers(facts):
            raise ConfigError(
                f"{tell(facts, deletes)}, which tables of format version 3 have",
                where=f"{_WHERE}, format-version",
                fix=f"leave it out, or take {join(incompatible_readers(facts))} out of `readers`",
            )
        if self._merge_on_read_option and version == "1":
            raise ConfigError(
                "tables of format version 1 have no deletes, which merge-on-read writes",
                where=f"{_WHERE}, {self._merge_on_read_option}",
                fix="write copy-on-write, or leave it out; or leave `format-version` out: new tables have format version 2",
            )
        if self._merge_on_read_option and incompatible_readers(facts):
            raise ConfigError(
                f"{tell(facts, deletes)}, which merge-on-read writes",
                where=f"{_WHERE}, {self._merge_on_read_option}",
                fix=f"write copy-on-write, or leave it out; or take {join(incompatible_readers(facts))} out of `readers`",
            )
        # Spark 3.5 cannot replace rows by copy-on-write in format version 3: Iceberg's numbers of rows come in its way.
        suits = version == "3" or (version != "1" and all_read(facts))
        chosen = self.table_type or ("merge-on-read" if suits else "copy-on-write")
        return {"format-version": version, **dict.fromkeys(_MODES, chosen)}

    def warnings(self, *, is_folder: bool) -> Iterator[str]:
        """What is chosen at a price, and what is not known. ``is_folder``: the tables are in no catalog."""
        facts, deletes = self._deletes(self._version)
        unsure = join(unknown(facts))
        if self._merge_on_read_option or self._version == "3":
            if unsure:
                yield f"it is not known whether {unsure} can read {deletes}, which merge-on-read writes: try it before you rely on it"
        elif self.table_type is None and not all_read(facts):
            reasons = [tell(facts, deletes)] if incompatible_readers(facts) else []
            reasons += [f"it is not known whether {unsure} can read {deletes}"] if unsure else []
            yield f"new tables are copy-on-write, so a batch writes each file anew in which a row changes: {', and '.join(reasons)}"
        file_format = self.options.get("write.format.default", "parquet").lower()
        if self.readers and file_format != "parquet":
            yield f"what is known of readers is known of Parquet files, and write.format.default is {file_format}"
        only_glue = [reader for reader in self.readers if READERS[reader].glue_alone]
        if is_folder and only_glue:
            yield (
                f"{join(only_glue)} can find tables in AWS Glue's catalog alone, and `warehouse` is a folder that is in no catalog: "
                "name a `catalog` of `type: glue` in place of it"
            )

    def check_mode(self, handle: TableHandle, name: str) -> None:
        """ConfigError for a table that is there and to which an upsert would write deletes that a reader does not read."""
        facts, deletes = self._deletes(handle.format_version)
        if incompatible_readers(facts) and "merge-on-read" in {handle.properties.get(mode) for mode in _MODES}:
            modes = ", ".join(f"'{mode}' = 'copy-on-write'" for mode in _MODES)
            raise ConfigError(
                f"its rows are replaced by merge-on-read, and {tell(facts, deletes)}",
                where=f"table {name}, {_WHERE}, readers",
                fix=f"ALTER TABLE {name} SET TBLPROPERTIES ({modes}); then {_REWRITE.format(name=name)}; or take "
                f"{join(incompatible_readers(facts))} out of `readers`",
            )

    def check_stored(self, handle: TableHandle, name: str) -> None:
        """ConfigError for a table that is there and that a reader does not read right."""
        self.check_mode(handle, name)
        snapshot = handle.snapshot
        position = _DELETES.get(handle.format_version, _DELETES["2"])
        for kind, of_reader in (("equality", "equality_deletes"), ("position", position)):
            count = int(snapshot.summary().get(f"total-{kind}-deletes") or 0) if snapshot is not None else 0
            facts, deletes = self._facts(of_reader), of_reader.replace("_", " ")
            if count and incompatible_readers(facts):
                raise ConfigError(
                    f"it has {count} rows that only {deletes} remove, and {tell(facts, deletes)}",
                    where=f"table {name}, {_WHERE}, readers",
                    fix=f"{_REWRITE.format(name=name)}; or take {join(incompatible_readers(facts))} out of `readers`",
                )

    @property
    def _version(self) -> str:
        return self.options.get("format-version", "2")

    @property
    def _merge_on_read_option(self) -> str | None:
        """The option by which the user asks for merge-on-read."""
        mode = next((mode for mode in _MODES if self.options.get(mode) == "merge-on-read"), None)
        return mode or ("table.type" if self.table_type == "merge-on-read" else None)

    def _deletes(self, version: str) -> tuple[dict[str, Support], str]:
        """What the readers make of that which merge-on-read writes in a format version, and its name."""
        of_reader = _DELETES.get(version)
        return (self._facts(of_reader), of_reader.replace("_", " ")) if of_reader else ({}, "")

    def _facts(self, of_reader: str) -> dict[str, Support]:
        return {reader: getattr(READERS[reader], of_reader) for reader in self.readers}
