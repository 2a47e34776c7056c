"""Observer that alerts people and services about a run."""

from __future__ import annotations

import shutil
import time
from collections.abc import Collection, Iterable
from importlib.util import find_spec
from typing import TYPE_CHECKING

from headrace.sdk import ConfigError, ObservedRun, Observer, RunEvent
from headrace.sdk.options import seconds_of
from headrace_alerts.alerts_config import AlertsConfig

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace_alerts.event_record import EventRecord
    from headrace_alerts.heartbeat import Heartbeat
    from headrace_alerts.watch import Watch

#: Seconds for which the end of a run waits until the last alerts are sent. The run itself waits five seconds.
_END_SECONDS = 4.0
_AWS = "aws"


class Alerts(Observer):
    """``alerts: {to: [...]}``, a key of the pipeline file."""

    name = "alerts"
    api_version = 1
    Config = AlertsConfig
    config: AlertsConfig

    def extras(self) -> Collection[str]:
        return (_AWS,) if self._uses_sns else ()

    def check(self, spark: SparkSession | None = None) -> None:
        if self._uses_sns and find_spec("boto3") is None:
            raise ConfigError("`sns` requires boto3", where="alerts", fix="pip install 'headrace[aws]'")

    def warnings(self) -> Iterable[str]:
        for number, receiver in enumerate(self.config.to, 1):
            if receiver.command and shutil.which(receiver.command[0]) is None:
                yield f"receiver {number} is no program of this machine: {receiver.command[0]}"
            if receiver.email and not receiver.email.require_tls:
                yield f"e-mail to {receiver.email.smarthost} is sent without encryption"

    def notes(self) -> Iterable[str]:
        if self.config.to:
            places = ", ".join(receiver.kind for receiver in self.config.to)
            yield f"sends to {places}; `headrace alert test` sends a test alert"

    def open(self, run: ObservedRun) -> None:
        from headrace_alerts.event_record import EventRecord
        from headrace_alerts.heartbeat import Heartbeat
        from headrace_alerts.watch import Watch

        self._record: EventRecord = EventRecord(seconds_of(self.config.window), time.monotonic)
        self._watch: Watch = Watch(self.config, run, self._record)
        self._watch.start()
        self._heartbeat: Heartbeat | None = None
        if self.config.dead_man is not None:
            self._heartbeat = Heartbeat(self.config.dead_man, run.status, run.warn)
            self._heartbeat.start()

    def observe(self, event: RunEvent) -> None:
        self._record.add(event)

    def close(self) -> None:
        deadline = time.monotonic() + _END_SECONDS
        end = self._record.end
        if self._heartbeat is not None:
            self._heartbeat.end(is_regular=end is not None and not end.error)
        self._watch.end(deadline)
        if self._heartbeat is not None:
            self._heartbeat.join(deadline - time.monotonic())

    @property
    def _uses_sns(self) -> bool:
        return any(receiver.sns for receiver in self.config.to)
