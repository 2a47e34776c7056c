"""Connectors of Kafka Connect that capture changes: ``headrace connect``."""

from headrace.sdk.hookspecs import hookimpl


@hookimpl
def headrace_commands() -> dict[str, str]:
    """Return the commands of this plugin."""
    return {"connect": "headrace_connect.command:connect|Deploy and control the connector that captures the changes."}
