"""Streams that the options select: by name, or by a pattern of which new streams may match more."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from headrace.sdk import ConfigError
from headrace.sdk.options import did_you_mean
from headrace_sources.kinesis.kinesis_config import KinesisConfig
from headrace_sources.kinesis.kinesis_stream import KinesisStream, list_streams


class StreamSelection:
    """Streams of a source."""

    def __init__(self, config: KinesisConfig, open_client: Callable[[KinesisStream], Any]) -> None:
        """``open_client``: returns the client of a stream."""
        self._config, self._open_client = config, open_client
        self._named = {one.name: one for one in (KinesisStream.of(name, config) for name in config.named_streams)}

    @property
    def pattern(self) -> str | None:
        """The pattern of names, if there is one."""
        return self._config.subscribePattern

    @property
    def service(self) -> KinesisStream:
        """All streams of the region, for requests that concern no single stream."""
        return next(iter(self._named.values()), self.open("")).service

    @property
    def where(self) -> str:
        """Description of the streams in errors."""
        if len(self._named) == 1:
            return next(iter(self._named.values())).where
        return f"{self.service.where}, {'subscribePattern' if self.pattern else 'subscribe'}"

    def matches(self, name: str) -> bool:
        """Return whether the options select a stream of this name."""
        if self.pattern is None:
            return name in self._named
        return re.fullmatch(self.pattern, name) is not None

    def open(self, name: str) -> KinesisStream:
        """Return the stream of a name, which may be deleted, or no longer selected."""
        return self._named.get(name) or KinesisStream.of(name, self._config)

    def find(self) -> list[str]:
        """Return the names of the streams; with a pattern, those that exist now."""
        if self.pattern is None:
            return list(self._named)
        return [name for name in self._list() if self.matches(name)]

    def reject_nothing(self) -> ConfigError:
        """Return the error of a pattern that no stream matches."""
        message = f"no stream matches subscribePattern {self.pattern!r}"
        return ConfigError(message, where=self.service.where, fix=did_you_mean(f"{self.pattern}", self._list()))

    def _list(self) -> list[str]:
        return list_streams(self.service, self._open_client(self.service))
