"""Built-in plugins for AWS: secrets of Secrets Manager and of the Systems Manager's parameter store."""

from __future__ import annotations

from headrace.sdk import hookimpl

_SECRETS = {
    "secretManager": "headrace_aws.secrets:from_secrets_manager",
    "ssm": "headrace_aws.secrets:from_parameter_store",
}


@hookimpl
def headrace_secret_providers() -> dict[str, str]:
    """What ``${secretManager:NAME:KEY}`` and ``${ssm:/PATH}`` stand for."""
    return _SECRETS
