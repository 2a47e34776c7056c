"""A connector in Kafka Connect: validation, deployment, and control."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, TypeVar
from urllib.parse import quote

from headrace.sdk import ConfigError, FatalError, RetriableError
from headrace.sdk.options import did_you_mean
from headrace_connect.connect_answers import OffsetsAnswer, PluginAnswer, StatusAnswer, ValidationAnswer
from headrace_connect.connect_client import ConnectClient, NoConnectorError, connector_path
from headrace_connect.connector_class import resolve_class
from headrace_connect.connector_diff import find_references
from headrace_connect.connector_secrets import ConnectorSecrets

T = TypeVar("T")
#: Seconds between two requests for the status, and seconds for which a connector runs before it counts as deployed: Debezium reads the
#: database in a thread of its own, whose first errors arrive after the start of the task.
POLL, SETTLE = 0.25, 3.0
#: Seconds for which the worker may still report the failure of the configuration before.
_STALE = 10.0
#: Similarity from which an unknown option is a misspelled one. Connectors pass options with other names to drivers and clients.
_MISSPELLED = 0.85


@dataclass(frozen=True)
class ConnectorStatus:
    """State of a connector and of its tasks, as Kafka Connect reports it."""

    state: str
    worker: str
    trace: str
    tasks: Sequence[Mapping[str, Any]]

    @property
    def failures(self) -> list[str]:
        """Traces of the connector and the tasks that failed."""
        failed = [str(task.get("trace") or "no trace") for task in self.tasks if task["state"] == "FAILED"]
        return [self.trace or "no trace", *failed] if self.state == "FAILED" else failed

    def is_in(self, state: str) -> bool:
        """Return whether the connector and its tasks are in a state. A stopped connector has no tasks, also once it is paused."""
        has_tasks = bool(self.tasks) or state != "RUNNING"
        return self.state == state and has_tasks and all(task["state"] == state for task in self.tasks)


class Deployment:
    """The connector ``name`` with its configuration."""

    def __init__(self, client: ConnectClient, name: str, options: Mapping[str, str], secrets: ConnectorSecrets) -> None:
        self.client, self.name, self.options, self.secrets = client, name, options, secrets

    @property
    def place(self) -> str:
        return f"connector {self.name} at {self.client.url}"

    def validate(self) -> list[str]:
        """Return warnings about options. ConfigError with all errors that the connector reports.

        Options that the connector declares as passwords are secrets from then on.
        """
        kind = self.options["connector.class"]
        self._check_plugin(kind)
        path = f"/connector-plugins/{quote(kind, safe='')}/config/validate"
        answer = self.client.read(ValidationAnswer, "PUT", path, {"name": self.name, **self.options})
        definitions = [option.definition for option in answer.configs if option.definition]
        self.secrets.passwords |= {item.name for item in definitions if item.type == "PASSWORD"}
        values = [option.value for option in answer.configs if option.value]
        errors = [f"{value.name}: {error}" for value in values for error in value.errors]
        if answer.error_count and not errors:
            errors = [f"the connector reports {answer.error_count} errors without a text: see the log of the worker"]
        if errors:
            raise ConfigError("\n".join(errors), where=self.place, fix=self._fix_options())
        known = {value.name for value in values}
        close = {key: get_close_matches(key, known, 1, _MISSPELLED) for key in self.options if key not in known}
        what = "is no option of the connector, which may pass it to its driver; did you mean"
        return [f"{key!r} {what} {near[0]!r}?" for key, near in close.items() if near]

    def read_options(self) -> dict[str, str] | None:
        """Return the deployed configuration; None if Kafka Connect does not have the connector."""
        try:
            options = self.client.read(dict[str, str | None], "GET", connector_path(self.name, "config"))
        except NoConnectorError:
            return None
        return {key: value for key, value in options.items() if value is not None}

    def put(self) -> None:
        """Create the connector, or change its configuration."""
        self.client.request("PUT", connector_path(self.name, "config"), dict(self.options))

    def status(self) -> ConnectorStatus:
        """Return the status. NoConnectorError if Kafka Connect does not have the connector."""
        answer = self._read(StatusAnswer, "GET", "status")
        connector, tasks = answer.connector, [task.model_dump(exclude_unset=True) for task in answer.tasks]
        return ConnectorStatus(connector.state, connector.worker_id, connector.trace or "", tasks)

    def find_status(self) -> ConnectorStatus | None:
        """Return the status; None if Kafka Connect does not have one."""
        try:
            return self.status()
        except NoConnectorError:
            return None

    def wait_for(self, state: str, timeout: float, before: ConnectorStatus | None = None, *, settle: float = 0) -> None:
        """Wait until the connector and its tasks are in a state, for ``settle`` seconds.

        FatalError with the trace when it or a task fails. ``before``: status before the last request, whose failures may still be
        reported. RetriableError after ``timeout`` seconds.
        """
        start = time.monotonic()
        since: float | None = None
        while True:
            status, now = self.find_status(), time.monotonic()
            failures = status.failures if status else []
            is_stale = before is not None and failures == before.failures and now - start < _STALE
            if failures and not is_stale:
                raise self.explain_failure(failures)
            since = (since or now) if status and not failures and status.is_in(state) else None
            if since is not None and now - since >= settle:
                return
            if now - start > timeout:
                shown = describe_status(status) if status else "unknown"
                what = f"the connector is not {state} after {timeout:.0f} seconds: {shown}"
                raise RetriableError(what, where=self.place, fix="see the log of the worker, or raise --timeout")
            time.sleep(POLL)

    def explain_failure(self, failures: Sequence[str]) -> FatalError:
        """Return the error of a connector that failed, with its own traces."""
        fix = "fix the cause that the trace names, then `headrace connect restart FILE`"
        return FatalError("the connector failed:\n" + "\n".join(dict.fromkeys(failures)), where=self.place, fix=fix)

    def control(self, action: str) -> None:
        """Send ``pause``, ``resume`` or ``stop``."""
        self._request("PUT", action)

    def restart(self, *, only_failed: bool) -> None:
        """Restart the connector and its tasks."""
        self._request("POST", f"restart?includeTasks=true&onlyFailed={str(only_failed).lower()}")

    def delete(self, timeout: float) -> None:
        """Delete the connector and wait until it has no status. Its offsets stay."""
        self._request("DELETE")
        deadline = time.monotonic() + timeout
        while self.find_status() is not None:
            if time.monotonic() > deadline:
                what = f"the connector still has a status after {timeout:.0f} seconds"
                raise RetriableError(what, where=self.place, fix="see the log of the worker")
            time.sleep(POLL)

    def read_offsets(self) -> list[dict[str, Any]]:
        """Return the offsets of the connector."""
        return self._read(OffsetsAnswer, "GET", "offsets").offsets

    def delete_offsets(self) -> None:
        """Delete the offsets of a stopped connector."""
        self._request("DELETE", "offsets")

    def _request(self, method: str, *parts: str) -> None:
        self._read(object, method, *parts)

    def _read(self, kind: type[T], method: str, *parts: str) -> T:
        try:
            return self.client.read(kind, method, connector_path(self.name, *parts))
        except NoConnectorError as error:
            names = self.client.read(list[str], "GET", "/connectors")
            what, fix = f"there is no connector {self.name!r}", "deploy it with `headrace connect deploy FILE`"
            if self.name in names:  # a new connector has no status for a moment
                what = f"Kafka Connect does not have this of connector {self.name!r}: {error.what}"
                fix = "retry in a moment; Kafka shows offsets since 3.5, and deletes them since 3.6"
            else:
                fix += f"; {did_you_mean(self.name, names)}"
            raise NoConnectorError(what, where=self.client.url, fix=fix) from None

    def _check_plugin(self, kind: str) -> None:
        plugins = self.client.read(list[PluginAnswer], "GET", "/connector-plugins")
        classes = [plugin.class_name for plugin in plugins]
        if resolve_class(kind, classes) not in classes:
            fix = f"unpack the connector into a folder of the worker's `plugin.path`; {did_you_mean(kind, classes)}"
            raise ConfigError(f"the worker has no connector {kind}", where=self.place, fix=fix)

    def _fix_options(self) -> str:
        fix = "correct `connect:`"
        if providers := find_references(self.options):
            needed = ",".join(providers)
            fix += f"; the worker resolves references and needs `config.providers={needed}` in its properties"
        return fix


def describe_status(status: ConnectorStatus) -> str:
    """Return the states in one line: ``connector RUNNING, task 0 RUNNING``."""
    states = [f"task {task['id']} {task['state']}" for task in status.tasks] or ["no tasks"]
    return ", ".join([f"connector {status.state}", *states])
