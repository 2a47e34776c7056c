"""File with the troubles that receivers have as open."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path

from headrace.sdk import ConfigError
from headrace_alerts.alert import Alert, Key


class StateFile:
    """File on the driver. One thread at a time writes it."""

    def __init__(self, path: Path, pipeline: str) -> None:
        self._path, self._pipeline = path, pipeline

    def read(self) -> list[Alert]:
        """Return the open troubles; none if the file is missing, damaged or of another pipeline. ConfigError if it cannot be read or written."""
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            text = self._path.read_text(encoding="utf-8") if self._path.exists() else ""
            found = _parse(text, self._pipeline)
            self.write(found)
        except OSError as error:
            what = f"`state`, {self._path}, cannot be used: {error.strerror}"
            raise ConfigError(what, where="alerts", fix="name a file in a folder that this user may write") from None
        return found

    def write(self, alerts: Iterable[Alert]) -> None:
        """Replace the file. OSError if it cannot be written."""
        items = [{**asdict(alert), "pipeline": self._pipeline} for alert in alerts]
        new = self._path.with_name(f"{self._path.name}.new")
        new.write_text(json.dumps(items, ensure_ascii=False, indent=1), encoding="utf-8")
        new.replace(self._path)


def _parse(text: str, pipeline: str) -> list[Alert]:
    try:
        items = json.loads(text)
        alerts = [Alert(**{**item, "key": Key(**item["key"])}) for item in items]
        return [alert for alert in alerts if alert.pipeline == pipeline and alert.started >= 0]
    except (ValueError, TypeError, KeyError):
        return []
