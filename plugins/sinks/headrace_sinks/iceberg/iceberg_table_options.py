"""Format version and write modes of Iceberg tables that all readers support."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from headrace.sdk import ConfigError
from headrace_sinks.iceberg.iceberg_readers import load_readers
from headrace_sinks.iceberg.table_handle import TableHandle
from headrace_sinks.reader_support import (
    Support,
    all_read,
    describe,
    incompatible_readers,
    join_names,
    unknown_readers,
)

TableType = Literal["merge-on-read", "copy-on-write"]
#: Format version → the feature that merge-on-read requires of readers.
_DELETES = {"2": "position_deletes", "3": "deletion_vectors"}
_MODES = tuple(f"write.{action}.mode" for action in ("merge", "update", "delete"))
_WHERE = "sink iceberg"
#: Spark's procedure writes data files without the rows that any kind of delete file names.
_REWRITE = "CALL CATALOG.system.rewrite_data_files(table => {name!r}, options => map('delete-file-threshold', '1'))"


@dataclass(frozen=True)
class IcebergTableOptions:
    """Options for new tables, and the readers that must support them."""

    readers: Sequence[str] = ()
    #: The configured table type; None when it is not set.
    table_type: TableType | None = None
    #: The configured table properties.
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def reads_equality_deletes(self) -> bool:
        """Whether readers are configured and all of them are known to read equality deletes."""
        return bool(self.readers) and all_read(self._find_support("equality_deletes"))

    def properties(self) -> dict[str, str]:
        """Return format version and write modes of new tables. ConfigError for options that a reader does not support."""
        version = self._version
        if self.readers and version not in _DELETES:
            raise ConfigError(
                f"it is not known which readers support format version {version}",
                where=f"{_WHERE}, format-version",
                fix="remove the option: new tables have format version 2",
            )
        support, deletes = self._find_deletes(version)
        if version == "3" and incompatible_readers(support):
            raise ConfigError(
                f"tables of format version 3 have {deletes}, but {describe(support, deletes)}",
                where=f"{_WHERE}, format-version",
                fix=f"remove the option, or remove {join_names(incompatible_readers(support))} from `readers`",
            )
        if self._merge_on_read_option and version == "1":
            raise ConfigError(
                "merge-on-read writes delete files, which format version 1 does not support",
                where=f"{_WHERE}, {self._merge_on_read_option}",
                fix="use copy-on-write, or remove `format-version`: new tables have format version 2",
            )
        if self._merge_on_read_option and incompatible_readers(support):
            raise ConfigError(
                f"merge-on-read writes {deletes}, but {describe(support, deletes)}",
                where=f"{_WHERE}, {self._merge_on_read_option}",
                fix=f"use copy-on-write or remove the option, or remove {join_names(incompatible_readers(support))} from `readers`",
            )
        # On Spark 3.5 copy-on-write fails in format version 3, as it cannot write Iceberg's row numbers.
        suits = version == "3" or (version != "1" and all_read(support))
        chosen = self.table_type or ("merge-on-read" if suits else "copy-on-write")
        return {"format-version": version, **dict.fromkeys(_MODES, chosen)}

    def warnings(self, *, is_folder: bool) -> Iterator[str]:
        """Warn about costs of the choice and about unknown support. ``is_folder``: the tables are in no catalog."""
        support, deletes = self._find_deletes(self._version)
        unknown = join_names(unknown_readers(support))
        if self._merge_on_read_option or self._version == "3":
            if unknown:
                yield (
                    f"merge-on-read writes {deletes}, and it is not known whether {unknown} can read them: test it before you rely "
                    "on it"
                )
        elif self.table_type is None and not all_read(support):
            reasons = [describe(support, deletes)] if incompatible_readers(support) else []
            reasons += [f"it is not known whether {unknown} can read {deletes}"] if unknown else []
            yield f"new tables are copy-on-write, so a batch rewrites every file that has a changed row: {', and '.join(reasons)}"
        file_format = self.options.get("write.format.default", "parquet").lower()
        if self.readers and file_format != "parquet":
            yield f"the support of readers is known for Parquet files only, and write.format.default is {file_format}"
        only_glue = [reader for reader in self.readers if load_readers()[reader].glue_only]
        if is_folder and only_glue:
            yield (
                f"{join_names(only_glue)} can find tables only in the catalog of AWS Glue, and `warehouse` is a folder without a "
                "catalog: set a `catalog` of `type: glue` instead"
            )

    def check_mode(self, handle: TableHandle, name: str) -> None:
        """Raise ConfigError when an upsert of an existing table would write deletes that a reader does not support."""
        support, deletes = self._find_deletes(handle.format_version)
        if incompatible_readers(support) and "merge-on-read" in {handle.properties.get(mode) for mode in _MODES}:
            modes = ", ".join(f"'{mode}' = 'copy-on-write'" for mode in _MODES)
            raise ConfigError(
                f"the table is merge-on-read, and {describe(support, deletes)}",
                where=f"table {name}, {_WHERE}, readers",
                fix=f"ALTER TABLE {name} SET TBLPROPERTIES ({modes}); then {_REWRITE.format(name=name)}; or remove "
                f"{join_names(incompatible_readers(support))} from `readers`",
            )

    def check_stored(self, handle: TableHandle, name: str) -> None:
        """Raise ConfigError when a reader would not read the right rows of an existing table."""
        self.check_mode(handle, name)
        snapshot = handle.snapshot
        position = _DELETES.get(handle.format_version, _DELETES["2"])
        for kind, feature in (("equality", "equality_deletes"), ("position", position)):
            count = int(snapshot.summary().get(f"total-{kind}-deletes") or 0) if snapshot is not None else 0
            support, deletes = self._find_support(feature), feature.replace("_", " ")
            if count and incompatible_readers(support):
                raise ConfigError(
                    f"{deletes} remove {count} rows of the table, and {describe(support, deletes)}",
                    where=f"table {name}, {_WHERE}, readers",
                    fix=f"{_REWRITE.format(name=name)}; or remove {join_names(incompatible_readers(support))} from `readers`",
                )

    @property
    def _version(self) -> str:
        return self.options.get("format-version", "2")

    @property
    def _merge_on_read_option(self) -> str | None:
        """Name of the option that sets merge-on-read; None when none does."""
        mode = next((mode for mode in _MODES if self.options.get(mode) == "merge-on-read"), None)
        return mode or ("table.type" if self.table_type == "merge-on-read" else None)

    def _find_deletes(self, version: str) -> tuple[dict[str, Support], str]:
        """Find the readers' support for the deletes that merge-on-read writes in a format version, and the name of the deletes."""
        feature = _DELETES.get(version)
        return (self._find_support(feature), feature.replace("_", " ")) if feature else ({}, "")

    def _find_support(self, feature: str) -> dict[str, Support]:
        return {reader: getattr(load_readers()[reader], feature) for reader in self.readers}
