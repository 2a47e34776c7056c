"""Built-in plugins for AWS: secrets, and the login at MSK: ``from headrace_aws import MskIam``."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from headrace.sdk import hookimpl

if TYPE_CHECKING:
    from headrace_aws.msk_iam import MskIam as MskIam

_SECRETS = {
    "secretManager": "headrace_aws.secrets:from_secrets_manager",
    "ssm": "headrace_aws.secrets:from_parameter_store",
}


@hookimpl
def headrace_secret_providers() -> dict[str, str]:
    """What ``${secretManager:NAME:KEY}`` and ``${ssm:/PATH}`` stand for."""
    return _SECRETS


@hookimpl
def headrace_auth_providers() -> dict[str, str]:
    """Logins at brokers of AWS's."""
    return {"msk-iam": "headrace_aws.msk_iam:MskIam"}


def __getattr__(name: str) -> Any:
    if name == "MskIam":
        return getattr(import_module("headrace_aws.msk_iam"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
