"""Alerts about a run, and a dead man's switch: ``alerts:``."""

from headrace.sdk.exports import lazy_plugins
from headrace.sdk.hookspecs import hookimpl

_OBSERVERS = {"alerts": "headrace_alerts.alerts:Alerts"}

__getattr__ = lazy_plugins(__name__, _OBSERVERS)


@hookimpl
def headrace_observers() -> dict[str, str]:
    """Return the observers of runs by the key of the pipeline file that has their options."""
    return _OBSERVERS


@hookimpl
def headrace_commands() -> dict[str, str]:
    """Return the commands of this plugin."""
    return {"alert": "headrace_alerts.command:alert|Send a test alert to the receivers of `alerts:`."}
