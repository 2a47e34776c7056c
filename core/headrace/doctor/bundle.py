"""Archive for a bug report: no secrets, and no values of rows."""

from __future__ import annotations

import json
import os
import platform
import sys
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import distributions
from typing import TYPE_CHECKING, Any

from headrace import __version__
from headrace.control_characters import escape_controls
from headrace.doctor.log_tail import read_tail
from headrace.doctor.redacted_file import RedactedFile
from headrace.doctor.report_json import describe_report
from headrace.doctor.row_values import hide_in, hide_row_values
from headrace.errors import ConfigError
from headrace.secret_values import hide_credentials, hide_named_secrets

if TYPE_CHECKING:
    from headrace.doctor.diagnosis import Diagnosis

#: Beginnings of environment variables whose names help to explain a problem. Their values stay here.
_VARIABLES = ("HEADRACE_", "SPARK_", "PYSPARK_", "HADOOP_", "JAVA_", "AWS_", "YARN_")
_ABOUT = """\
Written by `headrace doctor --bundle` at {time}.

It contains names of tables, topics, columns, servers and folders. Secrets, values of rows, comments of the pipeline file and values of
environment variables are left out. Read the files before you publish them.

{files}
"""
_FILES = {
    "findings.json": "the findings, and the checks that passed or were skipped",
    "versions.json": "headrace, Python, the system, and all installed Python packages",
    "pipeline.yaml": "the pipeline file",
    "tables.json": "the status of the tables",
    "progress.jsonl": "the progress of the last 100 batches",
    "commands.jsonl": "commands that somebody ran by hand",
    "log.txt": "lines of the log",
}


class Bundle:
    """Contents of the archive of a diagnosis. ``redact``: removes the secrets of the pipeline; ``log``: a log file."""

    def __init__(self, diagnosis: Diagnosis, redact: Callable[[str], str], log: str | None = None) -> None:
        self._diagnosis, self._redact, self._log = diagnosis, redact, read_tail(log) if log else None
        try:
            self._file: RedactedFile | None = RedactedFile(diagnosis.file)
        except ConfigError:
            self._file = None
        self._names = self._list_names()

    def write(self, path: str) -> None:
        """Write the archive, which this user alone can read. ConfigError if the path exists or cannot be written."""
        files = dict(self._list_files())
        listed = "\n".join(f"{name:<16}{_FILES[name]}" for name in files)
        time = datetime.now(UTC).isoformat(timespec="seconds")
        files = {"about.txt": _ABOUT.format(time=time, files=listed), **files}
        try:
            # Stored, not compressed: everybody can search the archive for a secret.
            target = os.fdopen(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb")
            with target, zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as archive:
                for name, text in files.items():
                    archive.writestr(name, text)
        except FileExistsError:
            raise ConfigError("the file exists", where=path, fix="name another file for --bundle") from None
        except OSError as error:
            what = f"the archive cannot be written: {error.strerror}"
            raise ConfigError(what, where=path, fix="name a file in another folder for --bundle") from error

    def _list_files(self) -> Iterator[tuple[str, str]]:
        yield "findings.json", self._dump(describe_report(self._diagnosis.report), indent=2)
        yield "versions.json", json.dumps(_describe_versions(), indent=2)
        if self._file:
            yield "pipeline.yaml", self._clean(self._file.write(), hides_values=False)
        if state := self._diagnosis.state:
            if state.status:
                yield "tables.json", self._dump([asdict(table) for table in state.status.tables], indent=2)
            if state.batches:
                yield "progress.jsonl", "".join(self._dump(json.loads(batch.json())) + "\n" for batch in state.batches)
            if state.commands:
                shown = [
                    {"started": c.started, "command": c.command, "result": c.result, "ended": c.ended}
                    for c in state.commands
                ]
                yield "commands.jsonl", "".join(self._dump(command) + "\n" for command in shown)
        if self._log is not None:
            yield "log.txt", "".join(self._clean_line(line) + "\n" for line in self._log)

    def _dump(self, value: Any, indent: int | None = None) -> str:
        return json.dumps(hide_in(value, self._clean), ensure_ascii=False, indent=indent)

    def _clean_line(self, line: str) -> str:
        """Return a line of the log; of JSON, the names of its fields stay."""
        try:
            return self._dump(json.loads(line)) if line.startswith("{") else self._clean(line)
        except ValueError:
            return self._clean(line)

    def _clean(self, text: str, *, hides_values: bool = True) -> str:
        """Return a text without secrets, and without values of rows."""
        text = self._redact(text)
        text = self._file.redact(text) if self._file else text
        text = hide_credentials(text)
        if not hides_values:
            return text
        return escape_controls(hide_row_values(hide_named_secrets(text), self._names), keep_lines=True)

    def _list_names(self) -> set[str]:
        """Return the names of tables, topics, columns and options, which are no values of rows."""
        names = self._file.names if self._file else set[str]()
        state = self._diagnosis.state
        return {*names, *(table.table for table in (state.status.tables if state and state.status else ()))}


def _describe_versions() -> dict[str, Any]:
    packages = {dist.metadata["Name"]: dist.version for dist in distributions()}
    return {
        "headrace": __version__,
        "python": sys.version,
        "system": platform.platform(),
        "cores": os.cpu_count(),
        "environment variables": sorted(name for name in os.environ if name.startswith(_VARIABLES)),
        "packages": dict(sorted(packages.items(), key=lambda item: str(item[0]).lower())),
    }
