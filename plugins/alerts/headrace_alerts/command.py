"""Command ``headrace alert``."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from headrace.sdk import ConfigError
from headrace.sdk.commands import BlockGroup
from headrace.sdk.options import escape_controls
from headrace_alerts.alerts_config import AlertsConfig

if TYPE_CHECKING:
    from headrace_alerts.alert import Alert
    from headrace_alerts.receivers.receiver import Receiver

alert = BlockGroup("alert", AlertsConfig, block="alerts", help="Test the receivers of `alerts:` in a pipeline file.")


@alert.command()
@click.argument("file", type=click.Path())
@click.option("--to", "number", type=click.IntRange(min=1), metavar="N", help="Only the receiver N of `to:`, from 1.")
def test(file: str, *, number: int | None) -> None:
    """Send a test alert to each receiver, and its end.

    Prints one line for each receiver. The exit code is 1 if one of them did not accept the alert. The dead man's switch receives nothing.
    """
    from headrace_alerts.receivers.receiver import make_receiver

    config, others = alert.load(file)
    chosen = [(n, one) for n, one in enumerate(config.to, 1) if number in (None, n)]
    if not chosen:
        what = "`alerts:` has no receiver" if number is None else f"`to:` has no receiver {number}"
        raise ConfigError(what, where=file, fix="add it to `to:`" if number is None else f"use 1 to {len(config.to)}")
    found = _make_alert(str(others.get("name", "")))
    has_failed = False
    receivers = [(n, make_receiver(one), one.send_resolved) for n, one in chosen]
    width = max(len(receiver.place) for _, receiver, _ in receivers)
    for n, receiver, sends_resolved in receivers:
        problem = _try(receiver, found, sends_resolved=sends_resolved)
        result = "accepted" if problem is None else f"FAILED: {problem}"
        click.secho(escape_controls(f"{n:>2}  {receiver.place:<{width}}  {result}"), fg="red" if problem else None)
        has_failed = has_failed or problem is not None
    click.get_current_context().exit(int(has_failed))


def _make_alert(pipeline: str) -> Alert:
    from headrace_alerts.alert import TEST, Alert, Key

    return Alert(pipeline, Key(TEST.name), "this is a test", "sent by `headrace alert test`", time.time())


def _try(receiver: Receiver, alert: Alert, *, sends_resolved: bool) -> str | None:
    """Return why the receiver did not accept the alert and its end; None if it did."""
    try:
        receiver.send([alert])
        if sends_resolved:
            receiver.send([replace(alert, ended=time.time())])
    except Exception as error:  # noqa: BLE001 - the other receivers are tried
        return receiver.describe_error(error)
    return None
