"""Base class of all servers: folder, ports, log, and a process that ends with this one."""

from __future__ import annotations

import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, ClassVar, Self

from headrace.errors import FatalError
from headrace.runtime.java.class_archive import makes_archive

#: Address on which every server listens.
HOST = "127.0.0.1"
#: Below Linux's range for outgoing connections, so a stopped server can use its port again.
_PORTS = range(20_000, 32_000)
_GUARD = Path(__file__).with_name("guard.py")


class Server(ABC):
    """Server with its own ports and folder; ``with`` starts it and removes its data at the end.

    ``stop``, ``kill`` and ``start`` keep the ports and the data. A failed start raises FatalError with the end of the log.
    Missing artifacts are fetched first (errors as in ``artifacts.fetch``).
    """

    name: ClassVar[str]
    #: Names of the attributes with ports.
    ports: ClassVar[tuple[str, ...]] = ("port",)
    #: Timeout of start and stop in seconds.
    patience: ClassVar[float] = 60
    stop_signal: ClassVar[int] = signal.SIGTERM
    #: Signal that ends the server when its data is obsolete.
    end_signal: ClassVar[int] = signal.SIGKILL
    #: Running servers of this process.
    running: ClassVar[list[Server]] = []

    host = HOST
    port: int

    def __init__(self) -> None:
        self._folder: Path | None = None
        self._guard: subprocess.Popen[str] | None = None
        self._pid: int | None = None
        self._log_begin = 0
        #: Whether the end of this run writes a class archive for the next one.
        self._makes_archive = False

    @abstractmethod
    def fetch(self) -> None:
        """Fetch missing artifacts."""

    def prepare(self) -> None:  # noqa: B027 - most have nothing to prepare
        """Create the data in the empty folder, once; the ports are set."""

    @abstractmethod
    def command(self) -> Sequence[str | Path]:
        """Write the configuration and return the command; called at each start."""

    @abstractmethod
    def ready(self) -> bool:
        """Return whether the server is ready; called repeatedly while the process is alive."""

    @property
    @abstractmethod
    def address(self) -> str:
        """Address for clients."""

    @property
    def folder(self) -> Path:
        """Folder of data, configuration and log; it exists from the first start until ``close``."""
        assert self._folder, f"{self.name} was not started"
        return self._folder

    @property
    def log(self) -> Path:
        """Log file: in HEADRACE_STACK_LOGS, where it stays, or in the folder, which is removed."""
        logs = os.environ.get("HEADRACE_STACK_LOGS")
        return Path(logs, f"{self.folder.name}.log").absolute() if logs else self.folder / f"{self.name}.log"

    @property
    def uid(self) -> int | None:
        """User of the server; None for the user of this process."""
        return None

    @property
    def pid(self) -> int | None:
        """PID of the server; None if it is not running."""
        # The guard may not have detected its end yet.
        return self._pid if self._guard and self._guard.poll() is None and self._pid and is_alive(self._pid) else None

    def start(self) -> Self:
        """Start the server and wait until it is ready."""
        if self.pid:
            return self
        if self._folder:
            # The process may have ended without a stop.
            self._end(signal.SIGKILL)
            self._launch()
            return self
        self.fetch()
        for attempt in (1, 2, 3, 4, 5):
            self._folder = Path(tempfile.mkdtemp(prefix=f"headrace-{self.name}-"))
            try:
                for port in self.ports:
                    setattr(self, port, free_port())
                if self.uid is not None:
                    os.chown(self.folder, self.uid, self.uid)
                self.prepare()
                self._launch()
                break
            except FatalError:
                # Another process took one of the ports.
                retry = attempt < 5 and not all(_is_free(getattr(self, port)) for port in self.ports)
                self.close()
                if not retry:
                    raise
            except BaseException:
                self.close()
                raise
        return self

    def stop(self) -> None:
        """Stop the server and wait for its end; the data stays."""
        self._end(self.stop_signal)

    def kill(self) -> None:
        """Kill the server as a power failure would; the data stays as it is."""
        self._end(signal.SIGKILL)

    def close(self) -> None:
        """Stop the server and remove its folder."""
        if self._makes_archive:
            with suppress(FatalError):
                self._end(self.stop_signal)
        self._end(self.end_signal)
        if self._folder:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def tail(self, lines: int = 30, *, begin: int = 0) -> str:
        """Return the last lines of the log after ``begin`` (bytes)."""
        if not self._folder or not self.log.exists():
            return ""
        with self.log.open("rb") as log:
            log.seek(begin)
            return "\n".join(log.read().decode("utf-8", "replace").splitlines()[-lines:])

    def log_says(self, text: str) -> bool:
        """Return whether the log since the last start contains a string."""
        with self.log.open("rb") as log:
            log.seek(self._log_begin)
            return text.encode() in log.read()

    def run(self, *command: str | Path, stdin: str = "") -> None:
        """Run a program that prepares the server, with its output in the log. FatalError if it fails."""
        with self._open_log() as log:
            done = subprocess.run(
                command,
                input=stdin.encode(),
                stdout=log,
                stderr=log,
                cwd=self.folder,
                user=self.uid,
                group=self.uid,
                extra_groups=[] if self.uid is not None else None,
                timeout=self.patience,
                check=False,
            )
        if done.returncode:
            raise self._failure(f"{Path(command[0]).name} exited with status {done.returncode}")

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if isinstance(error, Exception):
            error.add_note(f"the end of {self.name}'s log:\n{self.tail()}")
        self.close()

    def _launch(self) -> None:
        command = list(map(str, self.command()))
        self._makes_archive = makes_archive(command)
        with self._open_log() as log:
            self._log_begin = log.tell()
            uid = -1 if self.uid is None else self.uid
            self._guard = subprocess.Popen(
                [sys.executable, "-ISu", _GUARD, self.folder, str(int(self.end_signal)), str(uid), *command],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                cwd=self.folder,
                # Ctrl-C must reach only the test process, which then stops the server.
                start_new_session=True,
            )
        assert self._guard.stdout
        with self._guard.stdout as output:
            self._pid = int(output.readline() or 0)
        if not self._pid:
            self._end(signal.SIGKILL)
            raise self._failure("the server does not start")
        self.running.append(self)
        try:
            self._wait_until_ready()
        except BaseException:
            self._end(signal.SIGKILL)
            raise

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + self.patience
        while not self.ready():
            if not self.pid:
                raise self._failure("the server ended before it was ready")
            if time.monotonic() > deadline:
                raise self._failure(f"the server was not ready after {self.patience:.0f} s")
            time.sleep(0.05)

    def _end(self, number: int) -> None:
        guard = self._guard
        if not guard:
            return
        if pid := self.pid:
            with suppress(ProcessLookupError):
                os.kill(pid, number)
        try:
            guard.wait(self.patience)
        except subprocess.TimeoutExpired:
            assert self._pid
            os.kill(self._pid, signal.SIGKILL)
            guard.wait()
            raise self._failure(f"the server did not stop within {self.patience:.0f} s and was killed") from None
        finally:
            assert guard.stdin
            guard.stdin.close()
            self._guard = self._pid = None
            if self in self.running:
                self.running.remove(self)

    def _open_log(self) -> BinaryIO:
        self.log.parent.mkdir(parents=True, exist_ok=True)
        return self.log.open("ab")

    def _failure(self, message: str) -> FatalError:
        return FatalError(f"{message}; the end of its log:\n{self.tail()}", where=self.name)


def is_alive(pid: int) -> bool:
    """Return whether a process exists."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # the process of another user
        pass
    return True


def free_port() -> int:
    """Return a free port of 127.0.0.1."""
    while not _is_free(port := random.choice(_PORTS)):  # noqa: S311 - no secret
        pass
    return port


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        # As for servers: a port with connections in TIME_WAIT is free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True
