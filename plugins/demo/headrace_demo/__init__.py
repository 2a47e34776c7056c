"""Demos of headrace: ``headrace demo`` and ``headrace live``."""

from headrace.sdk.hookspecs import hookimpl


@hookimpl
def headrace_commands() -> dict[str, str]:
    """Return the commands of this plugin."""
    return {
        "demo": "headrace_demo.museum.command:demo|Load real change events into Hudi and Iceberg tables.",
        "live": "headrace_demo.live.command:live|Follow a live PostgreSQL database into Iceberg and Hudi.",
    }
