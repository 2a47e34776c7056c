"""Note in a checkpoint about the run that uses it, for the error of a second run."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Self

from headrace.errors import ConfigError

if TYPE_CHECKING:
    from headrace.sdk.file_system import TextFolder
    from headrace.spark.storage import Folder

_FILE = "run.json"


class InUseError(ConfigError):
    """Error for a checkpoint that another run uses."""


@dataclass(frozen=True)
class Run:
    """Process that runs a pipeline.

    ``began``: start of the process, which distinguishes it from a later process with the same id; 0 if unknown.
    """

    host: str
    pid: int
    began: int
    started: str

    @classmethod
    def of_this_process(cls) -> Self:
        """Return the run that starts now."""
        started = datetime.now(UTC).isoformat(timespec="seconds")
        return cls(socket.gethostname(), os.getpid(), _find_begin(os.getpid()), started)

    @property
    def was_killed_here(self) -> bool:
        """Whether this was a process on this machine that has ended without removing its note."""
        return self.host == socket.gethostname() and self.began != 0 and self.began != _find_begin(self.pid)

    @property
    def is_active_here(self) -> bool:
        """Whether this is another process on this machine that still runs."""
        is_other = self.host == socket.gethostname() and self.pid != os.getpid()
        return is_other and self.began != 0 and self.began == _find_begin(self.pid)

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}, started {self.started}"


class RunNote:
    """Note of a run in its checkpoint. The note is not a lock: a killed run leaves its note behind."""

    def __init__(self, folder: Folder) -> None:
        self._folder, self._run = folder, Run.of_this_process()
        self._earlier: Run | None = None

    def write(self) -> None:
        """Write the note. InUseError if the run that wrote the previous note is active on this machine."""
        self._earlier = read_run(self._folder)
        if self._earlier is not None and self._earlier.is_active_here:
            raise self.error()
        self._folder.write(_FILE, json.dumps(asdict(self._run)))

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Keep the note for the time of a block. InUseError if another run is active on this machine."""
        self.write()
        try:
            yield
        finally:
            self.delete()

    def delete(self) -> None:
        """Delete the note, unless another run has replaced it. Errors are ignored, because the note is only informative."""
        with suppress(Exception):
            if read_run(self._folder) == self._run:
                self._folder.delete(_FILE)

    def error(self) -> InUseError:
        """Return the error that names the other run: the last one that wrote a note."""
        latest = read_run(self._folder)
        other = self._earlier if latest in (None, self._run) else latest
        return InUseError(
            f"is in use by another run{f': {other}' if other else ''}",
            where=f"checkpoint {self._folder.path}",
            fix="stop one of the runs: only one run may use a checkpoint. No records are lost",
        )


def read_run(folder: TextFolder) -> Run | None:
    """Return the run that wrote the note in a checkpoint; None without a note, and for a damaged one."""
    try:
        return Run(**json.loads(folder.read(_FILE) or ""))
    except (ValueError, TypeError):
        return None


def has_ended(host: str, pid: int) -> bool:
    """Return whether a process was on this machine and does not exist any more; False on a system without /proc."""
    return host == socket.gethostname() and _find_begin(os.getpid()) != 0 and _find_begin(pid) == 0


def _find_begin(pid: int) -> int:
    """Return the start of a process in ticks since the machine started; 0 if it is unknown or there is no such process."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        return int(status.rpartition(")")[2].split()[19])
    except (OSError, ValueError, IndexError):
        return 0
