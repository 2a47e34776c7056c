"""Deletion of a connector's offsets, which Kafka Connect allows for a stopped connector only."""

from __future__ import annotations

from headrace.sdk import HeadraceError
from headrace_connect.deployment import SETTLE, ConnectorStatus, Deployment

#: State before the reset → the request that restores it. A connector that failed starts anew.
_ACTIONS = {"PAUSED": "pause", "STOPPED": ""}


def reset_offsets(deployment: Deployment, timeout: float) -> None:
    """Stop the connector, delete its offsets, and restore its state; also after an error, which then says so."""
    before = deployment.status()
    try:
        if before.state != "STOPPED":
            deployment.control("stop")
        deployment.wait_for("STOPPED", timeout, before)
        deployment.delete_offsets()
    except HeadraceError as error:
        what = f"the offsets are not deleted: {error.what}\n{_restore_state(deployment, before)}"
        raise type(error)(what, where=error.where, fix=error.fix) from error
    if action := _ACTIONS.get(before.state, "resume"):
        deployment.control(action)
    state = before.state if before.state in _ACTIONS else "RUNNING"
    deployment.wait_for(state, timeout, settle=SETTLE if state == "RUNNING" else 0)


def _restore_state(deployment: Deployment, before: ConnectorStatus) -> str:
    """Return a sentence about the state in which an error leaves the connector."""
    action = _ACTIONS.get(before.state, "resume")
    if not action:
        return "the connector is STOPPED, as before"
    try:
        deployment.control(action)
    except HeadraceError as error:
        return f"the connector is STOPPED: `headrace connect {action} FILE` restores its state ({error.what})"
    return f"the connector is {'PAUSED' if action == 'pause' else 'started'} again, as before"
