"""Table type and table version of Hudi tables that all readers support."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from headrace.sdk import ConfigError
from headrace_sinks.hudi.hudi_readers import load_readers
from headrace_sinks.reader_support import (
    Support,
    all_read,
    describe,
    incompatible_readers,
    join_names,
    unknown_readers,
)

TableType = Literal["MERGE_ON_READ", "COPY_ON_WRITE"]
TYPE, _VERSION = "hoodie.datasource.write.table.type", "hoodie.write.table.version"
#: The table versions that Hudi 1.2 can write, in ascending order. The last is its default.
_WRITABLE_VERSIONS = (6, 8, 9)
#: The first table version in which log files may be written during a compaction.
_CONCURRENT_VERSION = 8
_LOGS = "log files"


@dataclass(frozen=True)
class HudiTableOptions:
    """Options for new tables, and the readers that must support them."""

    readers: Sequence[str] = ()
    #: The configured table type; None when it is not set.
    table_type: TableType | None = None
    #: The configured options of Hudi.
    options: Mapping[str, str] = field(default_factory=dict)

    def write_options(self) -> dict[str, str]:
        """Return table type and version for Hudi's writer. ConfigError for options that a reader does not support.

        Every batch sets the version: without it Hudi upgrades a table of an older version.
        """
        bases, logs = self._find_support("copy_on_write"), self._find_support("merge_on_read")
        if incompatible_readers(bases):
            raise ConfigError(
                f"{describe(bases, 'the tables that Hudi 1.2 writes')}",
                where="sink hudi, readers",
                fix=f"remove {join_names(incompatible_readers(bases))}, or write its tables with the sink `iceberg`",
            )
        if self._merge_on_read_option and incompatible_readers(logs):
            raise ConfigError(
                f"merge-on-read writes changes to {_LOGS}, but {describe(logs, _LOGS)}",
                where=f"sink hudi, {self._merge_on_read_option}",
                fix=f"use COPY_ON_WRITE or remove the option, or remove {join_names(incompatible_readers(logs))} from `readers`",
            )
        version = self._choose_version()
        if self._merge_on_read_option and self._requires_old_version:
            raise ConfigError(
                f"readers require a table version before {_CONCURRENT_VERSION}, in which {_LOGS} must not be written during a compaction",
                where=f"sink hudi, {self._merge_on_read_option}",
                fix="use COPY_ON_WRITE, or remove the option",
            )
        suits = all_read(logs) and not self._requires_old_version
        return {TYPE: self.table_type or ("MERGE_ON_READ" if suits else "COPY_ON_WRITE"), **version}

    @property
    def new_version(self) -> int:
        """Table version of new tables."""
        return int(self.options.get(_VERSION) or self._choose_version().get(_VERSION) or _WRITABLE_VERSIONS[-1])

    def warnings(self) -> Iterator[str]:
        """Warn about costs of the choice and about unknown support."""
        logs = self._find_support("merge_on_read")
        unknown = join_names(unknown_readers(logs))
        if self._merge_on_read_option and unknown:
            yield (
                f"merge-on-read writes changes to {_LOGS}, and it is not known whether {unknown} can read them: test it before you "
                "rely on it"
            )
        elif (
            not self._merge_on_read_option
            and self.table_type is None
            and (self._requires_old_version or not all_read(logs))
        ):
            reasons = [describe(logs, _LOGS)] if incompatible_readers(logs) else []
            reasons += (
                [f"readers require a table version before {_CONCURRENT_VERSION}"] if self._requires_old_version else []
            )
            reasons += [f"it is not known whether {unknown} can read {_LOGS}"] if unknown else []
            yield f"new tables are COPY_ON_WRITE, so a batch rewrites every file that has a changed row: {', and '.join(reasons)}"
        untested = [reader for reader in self.readers if load_readers()[reader].table_version is None]
        if untested and _VERSION not in self.options:
            version = self._choose_version().get(_VERSION, str(_WRITABLE_VERSIONS[-1]))
            yield (
                f"it is not known whether {join_names(untested)} can read table version {version}: test it; `{_VERSION}: 6` is the "
                "version of Hudi 0.14 and 0.15"
            )

    def check_stored(self, config: Any, name: str) -> None:
        """Raise ConfigError when a reader would not read the right rows of an existing table. ``config``: its HoodieTableConfig."""
        logs = self._find_support("merge_on_read")
        if str(config.getTableType()) == "MERGE_ON_READ" and incompatible_readers(logs):
            raise ConfigError(
                f"the table is MERGE_ON_READ, and {describe(logs, _LOGS)}; the type of an existing table does not change",
                where=f"table {name}, sink hudi, readers",
                fix=f"rewrite the table in another `path`, or remove {join_names(incompatible_readers(logs))} from `readers`",
            )
        version, newest = int(config.getTableVersion().versionCode()), self._find_newest_version()
        if newest is not None and version > newest[1]:
            raise ConfigError(
                f"the table has table version {version}, and {newest[0]} reads up to {newest[1]}",
                where=f"table {name}, sink hudi, readers",
                fix=f"CALL downgrade_table(table => {name!r}, to_version => 'SIX'), or rewrite the table in another `path`; or "
                f"remove {newest[0]} from `readers`",
            )

    @property
    def _merge_on_read_option(self) -> str | None:
        """Name of the option that sets merge-on-read; None when none does."""
        if self.options.get(TYPE) == "MERGE_ON_READ":
            return TYPE
        return "table.type" if self.table_type == "MERGE_ON_READ" else None

    @property
    def _requires_old_version(self) -> bool:
        """Whether readers require a version in which log files that are written during a compaction may be lost."""
        newest = self._find_newest_version()
        return newest is not None and newest[1] < _CONCURRENT_VERSION

    def _choose_version(self) -> dict[str, str]:
        """Choose the newest table version that all readers support; empty for Hudi's default."""
        newest = self._find_newest_version()
        if newest is None:
            return {}
        reader, version = newest
        if int(self.options.get(_VERSION, 0)) > version:
            raise ConfigError(
                f"{reader} reads tables up to version {version}",
                where=f"sink hudi, {_VERSION}",
                fix=f"remove the option, or remove {reader} from `readers`",
            )
        suitable = [candidate for candidate in _WRITABLE_VERSIONS if candidate <= version]
        if not suitable:
            raise ConfigError(
                f"{reader} reads tables up to version {version}, and Hudi 1.2 writes version {_WRITABLE_VERSIONS[0]} or newer",
                where="sink hudi, readers",
                fix=f"remove {reader}, or write its tables with the sink `iceberg`",
            )
        return {} if suitable[-1] == _WRITABLE_VERSIONS[-1] else {_VERSION: str(suitable[-1])}

    def _find_newest_version(self) -> tuple[str, int] | None:
        """Find the reader with the lowest limit, and the newest table version that it reads; None when no limit is known."""
        known = {reader: load_readers()[reader].table_version for reader in self.readers}
        versions = [(version, reader) for reader, version in known.items() if version is not None]
        return (min(versions)[1], min(versions)[0]) if versions else None

    def _find_support(self, feature: str) -> dict[str, Support]:
        return {reader: getattr(load_readers()[reader], feature) for reader in self.readers}
