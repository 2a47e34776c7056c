"""What new tables are like, so that all readers read them right; and what of a table that is there contradicts them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from headrace.sdk import ConfigError
from headrace_sinks.hudi.hudi_readers import READERS
from headrace_sinks.reader_support import Support, all_read, incompatible_readers, join, tell, unknown

TableType = Literal["MERGE_ON_READ", "COPY_ON_WRITE"]
TYPE, _VERSION = "hoodie.datasource.write.table.type", "hoodie.write.table.version"
#: The table versions that Hudi 1.2 writes, the oldest first; it writes the last unless told otherwise.
_WRITTEN = (6, 8, 9)
#: From this table version on log files may be written while others are compacted.
_CONCURRENT = 8
_LOGS = "log files"


@dataclass(frozen=True)
class HudiTableOptions:
    """What the user says of new tables, and what follows for them from those that read them."""

    readers: Sequence[str] = ()
    #: As the user has it.
    table_type: TableType | None = None
    #: Options of Hudi's, as the user has them.
    options: Mapping[str, str] = field(default_factory=dict)

    def write_options(self) -> dict[str, str]:
        """Table type and version, as Hudi's writer takes them. ConfigError where the user asks for what a reader does not read.

        The version is of each batch: without it Hudi upgrades a table that has an older one.
        """
        bases, logs = self._facts("copy_on_write"), self._facts("merge_on_read")
        if incompatible_readers(bases):
            raise ConfigError(
                f"{tell(bases, 'the tables that Hudi 1.2 writes')}",
                where="sink hudi, readers",
                fix=f"take {join(incompatible_readers(bases))} out, or give it tables of the sink `iceberg`",
            )
        if self._merge_on_read_option and incompatible_readers(logs):
            raise ConfigError(
                f"{tell(logs, _LOGS)}, to which merge-on-read writes changes",
                where=f"sink hudi, {self._merge_on_read_option}",
                fix=f"write COPY_ON_WRITE, or leave it out; or take {join(incompatible_readers(logs))} out of `readers`",
            )
        version = self._version_option()
        if self._merge_on_read_option and self._is_old:
            raise ConfigError(
                f"readers want a table version before {_CONCURRENT}, in which log files may not be compacted while others are written",
                where=f"sink hudi, {self._merge_on_read_option}",
                fix="write COPY_ON_WRITE, or leave it out",
            )
        suits = all_read(logs) and not self._is_old
        return {TYPE: self.table_type or ("MERGE_ON_READ" if suits else "COPY_ON_WRITE"), **version}

    def warnings(self) -> Iterator[str]:
        """What is chosen at a price, and what is not known."""
        logs = self._facts("merge_on_read")
        unsure = join(unknown(logs))
        if self._merge_on_read_option and unsure:
            yield f"it is not known whether {unsure} can read {_LOGS}, to which merge-on-read writes changes: try it before you rely on it"
        elif not self._merge_on_read_option and self.table_type is None and (self._is_old or not all_read(logs)):
            reasons = [tell(logs, _LOGS)] if incompatible_readers(logs) else []
            reasons += [f"readers want a table version before {_CONCURRENT}"] if self._is_old else []
            reasons += [f"it is not known whether {unsure} can read {_LOGS}"] if unsure else []
            yield f"new tables are COPY_ON_WRITE, so a batch writes each file anew in which a row changes: {', and '.join(reasons)}"
        untold = [reader for reader in self.readers if READERS[reader].table_version is None]
        if untold and _VERSION not in self.options:
            version = self._version_option().get(_VERSION, str(_WRITTEN[-1]))
            yield (
                f"it is not known whether {join(untold)} can read table version {version}: try it; `{_VERSION}: 6` is what Hudi 0.14 and "
                "0.15 wrote"
            )

    def check_stored(self, config: Any, name: str) -> None:
        """ConfigError for a table that is there and that a reader does not read right. ``config``: Hudi's own object."""
        logs = self._facts("merge_on_read")
        if str(config.getTableType()) == "MERGE_ON_READ" and incompatible_readers(logs):
            raise ConfigError(
                f"it is a MERGE_ON_READ table, and {tell(logs, _LOGS)}; the type of a table that is there does not change",
                where=f"table {name}, sink hudi, readers",
                fix=f"write it anew in another `path`, or take {join(incompatible_readers(logs))} out of `readers`",
            )
        version, newest = int(config.getTableVersion().versionCode()), self._newest_version()
        if newest is not None and version > newest[1]:
            raise ConfigError(
                f"it has table version {version}, and {newest[0]} reads up to {newest[1]}",
                where=f"table {name}, sink hudi, readers",
                fix=f"CALL downgrade_table(table => {name!r}, to_version => 'SIX'), or write it anew in another `path`; or take "
                f"{newest[0]} out of `readers`",
            )

    @property
    def _merge_on_read_option(self) -> str | None:
        """The option by which the user asks for merge-on-read."""
        if self.options.get(TYPE) == "MERGE_ON_READ":
            return TYPE
        return "table.type" if self.table_type == "MERGE_ON_READ" else None

    @property
    def _is_old(self) -> bool:
        """Whether those who read want a version in which changes that are written beside a compaction may be lost."""
        newest = self._newest_version()
        return newest is not None and newest[1] < _CONCURRENT

    def _version_option(self) -> dict[str, str]:
        newest = self._newest_version()
        if newest is None:
            return {}
        reader, version = newest
        asked = int(self.options.get(_VERSION, 0))
        if asked > version:
            raise ConfigError(
                f"{reader} reads tables up to version {version}",
                where=f"sink hudi, {_VERSION}",
                fix=f"leave it out, or take {reader} out of `readers`",
            )
        written = [one for one in _WRITTEN if one <= version]
        if not written:
            raise ConfigError(
                f"{reader} reads tables up to version {version}, and Hudi 1.2 writes none older than {_WRITTEN[0]}",
                where="sink hudi, readers",
                fix=f"take {reader} out, or give it tables of the sink `iceberg`",
            )
        return {} if written[-1] == _WRITTEN[-1] else {_VERSION: str(written[-1])}

    def _newest_version(self) -> tuple[str, int] | None:
        """The reader that reads the oldest tables alone, of those of which it is known, and the newest that it reads."""
        known = {reader: READERS[reader].table_version for reader in self.readers}
        versions = [(version, reader) for reader, version in known.items() if version is not None]
        return (min(versions)[1], min(versions)[0]) if versions else None

    def _facts(self, of_reader: str) -> dict[str, Support]:
        return {reader: getattr(READERS[reader], of_reader) for reader in self.readers}
