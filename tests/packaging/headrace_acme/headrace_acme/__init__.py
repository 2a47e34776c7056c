"""Plugins of Acme for headrace."""

from headrace.sdk import hookimpl


@hookimpl
def headrace_sources() -> dict[str, str]:
    return {"acme_log": "headrace_acme.source:AcmeLog"}


@hookimpl
def headrace_transforms() -> dict[str, str]:
    return {"acme_upper": "headrace_acme.transform:AcmeUpper"}


@hookimpl
def headrace_sinks() -> dict[str, str]:
    return {"acme_csv": "headrace_acme.sink:AcmeCsv"}
