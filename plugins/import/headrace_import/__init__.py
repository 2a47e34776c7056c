"""Pipeline files from the configurations of other tools: ``headrace import``."""

from headrace.sdk.hookspecs import hookimpl


@hookimpl
def headrace_commands() -> dict[str, str]:
    """Return the commands of this plugin."""
    return {"import": "headrace_import.command:import_files|Write a pipeline file from existing configuration files."}
