"""Comparison of tables with their source database: ``headrace verify``."""

from headrace.sdk.hookspecs import hookimpl


@hookimpl
def headrace_commands() -> dict[str, str]:
    """Return the commands of this plugin."""
    return {"verify": "headrace_verify.command:verify|Compare tables with their source database."}
