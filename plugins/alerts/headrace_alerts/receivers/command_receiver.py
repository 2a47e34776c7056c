"""Receiver that is a program of this machine."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryFile

from headrace.sdk import ConfigError, RetriableError
from headrace_alerts.alert import Alert, format_time
from headrace_alerts.receivers.receiver import Receiver

#: Bytes at the end of the error output of which a message shows the last line, and the characters of that line.
_TAIL, _LINE = 4096, 200


class CommandReceiver(Receiver):
    """Program that is started for each alert. A program that takes too long is killed with its children."""

    @property
    def place(self) -> str:
        return f"command {Path(self.options[0]).name}"

    def send(self, alerts: Sequence[Alert]) -> None:
        (alert,) = alerts
        # Files, not pipes: a child that outlives the program would keep a pipe open.
        with TemporaryFile() as given, TemporaryFile() as errors:
            given.write(json.dumps(alert.to_dict(), ensure_ascii=False).encode())
            given.seek(0)
            try:
                program = subprocess.Popen(
                    self.options,
                    stdin=given,
                    stdout=subprocess.DEVNULL,
                    stderr=errors,
                    env={**os.environ, **make_environment(alert)},
                    start_new_session=True,
                )
            except (OSError, ValueError) as error:
                reason = error.strerror if isinstance(error, OSError) else "its arguments contain a null character"
                raise ConfigError(f"it cannot be started: {reason}", fix="check `command`") from None
            code = self._wait(program)
            if code != 0:
                errors.seek(max(errors.seek(0, os.SEEK_END) - _TAIL, 0))
                lines = errors.read().decode(errors="replace").strip().splitlines()
                said = f": {lines[-1][:_LINE]}" if lines else ""
                raise RetriableError(f"it ended with exit code {code}{said}", fix="run it with a test alert")

    def _wait(self, program: subprocess.Popen[bytes]) -> int:
        try:
            return program.wait(self.timeout)
        except subprocess.TimeoutExpired:
            with suppress(ProcessLookupError):
                os.killpg(program.pid, signal.SIGKILL)
            program.wait()
            what = f"it was killed after {self.timeout:g} seconds"
            raise RetriableError(what, fix="make it faster, or increase `timeout`") from None


def make_environment(alert: Alert) -> dict[str, str]:
    """Return the environment variables about an alert."""
    values = {
        "status": alert.status,
        **alert.labels,
        "summary": alert.summary,
        "description": alert.description,
        "starts_at": format_time(alert.started),
        "ends_at": "" if alert.ended is None else format_time(alert.ended),
        "fingerprint": alert.fingerprint,
    }
    return {f"HEADRACE_ALERT_{name.upper()}": value.replace("\0", "") for name, value in values.items()}
