"""Command that somebody ran by hand on a pipeline."""

from __future__ import annotations

import getpass
import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Self

#: Results of a command. A command that was killed stays ``STARTED``.
STARTED, DONE, FAILED, INTERRUPTED = "started", "done", "failed", "interrupted"


@dataclass(frozen=True, kw_only=True)
class AuditEntry:
    """Command on a pipeline. Times: UTC, ISO 8601."""

    started: str
    command: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    #: Login name; None where the process has none.
    user: str | None = None
    host: str
    pid: int
    #: ``started``, ``done``, ``failed`` or ``interrupted``.
    result: str = STARTED
    ended: str | None = None
    error: str | None = None

    @classmethod
    def of_this_process(cls, command: str, arguments: Mapping[str, Any]) -> Self:
        """Return the entry of a command that starts now, without the arguments that are not given."""
        given = {name: value for name, value in arguments.items() if value not in (None, False, "", ())}
        return cls(
            started=format_time(),
            command=command,
            arguments=given,
            user=_find_user(),
            host=socket.gethostname(),
            pid=os.getpid(),
        )


def _find_user() -> str | None:
    # The process may have a user id without a name, as in many containers.
    try:
        return os.environ.get("SUDO_USER") or getpass.getuser()
    except (OSError, KeyError):
        return None


def format_time() -> str:
    """Return the current time in UTC, ISO 8601 with microseconds, so that later entries sort after earlier ones."""
    return datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
