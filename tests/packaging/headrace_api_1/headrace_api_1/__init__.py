"""A plugin of each kind, as they were written for plugin API 1. Nobody edits this folder: docs/stability.md says why."""

from headrace.sdk import hookimpl


@hookimpl
def headrace_sources() -> dict[str, str]:
    return {"old_log": "headrace_api_1.source:OldLog"}


@hookimpl
def headrace_formats() -> dict[str, str]:
    return {"old_csv": "headrace_api_1.format:OldCsv"}


@hookimpl
def headrace_dialects() -> dict[str, str]:
    return {"old_actions": "headrace_api_1.dialect:OldActions"}


@hookimpl
def headrace_transforms() -> dict[str, str]:
    return {"old_upper": "headrace_api_1.transform:OldUpper"}


@hookimpl
def headrace_sinks() -> dict[str, str]:
    return {"old_csv": "headrace_api_1.sink:OldCsv"}


@hookimpl
def headrace_auth_providers() -> dict[str, str]:
    return {"old_scram": "headrace_api_1.auth:OldScram"}


@hookimpl
def headrace_catalogs() -> dict[str, str]:
    return {"old_files": "headrace_api_1.catalog:OldFiles"}


@hookimpl
def headrace_filesystems() -> dict[str, str]:
    return {"old": "headrace_api_1.filesystem:Old"}


@hookimpl
def headrace_secret_providers() -> dict[str, str]:
    return {"old_folder": "headrace_api_1.secrets:read_secret"}
