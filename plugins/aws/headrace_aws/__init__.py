"""Built-in plugins for AWS: streams of Kinesis, secrets, the login at MSK: ``from headrace_aws import KinesisSource, MskIam``."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from headrace.sdk import hookimpl

if TYPE_CHECKING:
    from headrace_aws.kinesis.source import KinesisSource as KinesisSource
    from headrace_aws.msk_iam import MskIam as MskIam

_SOURCES = {"kinesis": "headrace_aws.kinesis.source:KinesisSource"}
_LOGINS = {"msk-iam": "headrace_aws.msk_iam:MskIam"}
_SECRETS = {
    "secretManager": "headrace_aws.secrets:from_secrets_manager",
    "ssm": "headrace_aws.secrets:from_parameter_store",
}
#: Class → its module, imported on first use.
_MODULES = {
    class_name: module
    for paths in (_SOURCES, _LOGINS)
    for module, _, class_name in (path.partition(":") for path in paths.values())
}


@hookimpl
def headrace_sources() -> dict[str, str]:
    """Transports."""
    return _SOURCES


@hookimpl
def headrace_secret_providers() -> dict[str, str]:
    """What ``${secretManager:NAME:KEY}`` and ``${ssm:/PATH}`` stand for."""
    return _SECRETS


@hookimpl
def headrace_auth_providers() -> dict[str, str]:
    """Logins at brokers of AWS's."""
    return _LOGINS


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(import_module(_MODULES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
