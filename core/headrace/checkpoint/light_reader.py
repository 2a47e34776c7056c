"""Reading a checkpoint without Spark."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.checkpoint.audit_log import read_audit
from headrace.checkpoint.backlog import read_failures
from headrace.checkpoint.layout import AUDIT, BACKLOG, PROGRESS, read_header
from headrace.checkpoint.progress_log import read_progress
from headrace.errors import ConfigError
from headrace.progress.status import CheckpointStatus, describe_checkpoint
from headrace.runtime.jars.ivy import spark_conf_home

if TYPE_CHECKING:
    from headrace.progress.audit_entry import AuditEntry
    from headrace.progress.model import BatchProgress
    from headrace.sdk.file_system import FileSystem, TextFolder

_SCHEME = re.compile(r"(?P<scheme>[A-Za-z][\w+.-]*):(?://(?P<host>[^/]*))?(?P<path>.*)", re.DOTALL)
_HADOOP = "spark.hadoop."
#: Variables of an environment with Hadoop or Spark settings of its own, which only the JVM reads.
_CLUSTER_SETTINGS = ("HADOOP_CONF_DIR", "SPARK_CONF_DIR", "YARN_CONF_DIR")
#: Files of Spark's configuration folder, which headrace adds to the JVM's class path.
_SETTING_FILES = ("spark-defaults.conf", "core-site.xml", "hdfs-site.xml")


class LocalFolder:
    """Folder on a local disk."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def folder(self, name: str) -> LocalFolder:
        """Return a folder in it."""
        return LocalFolder(self.path / name)

    def names(self, *, hidden: bool = False) -> list[str]:
        """Return the sorted names of files and folders in it; empty when it does not exist. ``hidden`` includes ``.…`` and ``_…``."""
        try:
            return sorted(path.name for path in self.path.iterdir() if hidden or not path.name.startswith((".", "_")))
        except FileNotFoundError:
            return []
        except OSError as error:
            raise self._error(error) from error

    def read(self, name: str) -> str | None:
        """Return the text of a file, None when it does not exist."""
        try:
            return (self.path / name).read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._error(error) from error

    def _error(self, error: OSError) -> ConfigError:
        return ConfigError(
            f"cannot be read: {error.strerror}", where=str(self.path), fix="check the path and its permissions"
        )


def open_without_spark(address: str, conf: Mapping[str, str], file_systems: Iterable[FileSystem]) -> TextFolder | None:
    """Return a reader of a checkpoint's folder; None when only Spark can read it. ``conf``: the pipeline's Spark settings."""
    if _has_settings_of_spark():
        return None
    options = {key.removeprefix(_HADOOP): value for key, value in conf.items() if key.startswith(_HADOOP)}
    found = _SCHEME.fullmatch(address)
    if found is None:
        return None if "fs.defaultFS" in options else LocalFolder(Path(address))
    if found["scheme"].lower() == "file":
        return LocalFolder(Path(found["path"])) if not found["host"] else None
    system = next((system for system in file_systems if system.name == found["scheme"].lower()), None)
    return system.open_folder(address, options) if system else None


def find_local(address: str, conf: Mapping[str, str]) -> Path | None:
    """Return the absolute path of an address on a local disk; None for another file system. ``conf``: the pipeline's Spark settings."""
    folder = open_without_spark(address, conf, ())
    return folder.path.absolute() if isinstance(folder, LocalFolder) else None


def _has_settings_of_spark() -> bool:
    """Return whether Spark or Hadoop has settings outside of the pipeline, which may change what an address means."""
    if any(os.environ.get(name) for name in _CLUSTER_SETTINGS):
        return True
    with suppress(ConfigError):  # PySpark is not installed
        return any((spark_conf_home() / name).is_file() for name in _SETTING_FILES)
    return False


def read_history(checkpoint: TextFolder, where: str, pipeline: str) -> list[BatchProgress]:
    """Return the progress of the last batches, oldest first. ConfigError for the checkpoint of another pipeline or layout."""
    read_header(checkpoint, where, pipeline)
    return read_progress(checkpoint.folder(PROGRESS))


def read_log(checkpoint: TextFolder, where: str, pipeline: str, last: int | None) -> list[AuditEntry]:
    """Return the commands that somebody ran on a pipeline, oldest first, or the ``last`` ones. ConfigError as for ``read_history``."""
    read_header(checkpoint, where, pipeline)
    return read_audit(checkpoint.folder(AUDIT), last)


def read_status(
    checkpoint: TextFolder, where: str, pipeline: str, sinks_of: Callable[[str], Sequence[str]]
) -> CheckpointStatus:
    """Return the status of a pipeline's tables in their sinks. ``sinks_of``: table → names of its sinks."""
    history = read_history(checkpoint, where, pipeline)
    # A backlog outlives the batches whose progress is kept.
    backlogs = read_failures(checkpoint.folder(BACKLOG))
    failures = {(table, sink): failure for table, failure in backlogs.items() for sink in sinks_of(table)}
    return describe_checkpoint(pipeline, history, failures)
