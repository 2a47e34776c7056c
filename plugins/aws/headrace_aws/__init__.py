"""Built-in plugins for AWS: S3A file system, secret providers, MSK IAM authentication, metrics in CloudWatch; and shared clients."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.sdk import hookimpl
from headrace.sdk.exports import lazy_plugins

if TYPE_CHECKING:
    from headrace_aws.cloudwatch.cloudwatch_observer import CloudWatch as CloudWatch
    from headrace_aws.msk.msk_iam import MskIam as MskIam

_LOGINS = {"msk-iam": "headrace_aws.msk.msk_iam:MskIam"}
_OBSERVERS = {"cloudwatch": "headrace_aws.cloudwatch.cloudwatch_observer:CloudWatch"}
_FILE_SYSTEMS = {"s3a": "headrace_aws.s3a.s3a_file_system:S3A"}
_SECRETS = {
    "secretManager": "headrace_aws.secrets.aws_secrets:from_secrets_manager",
    "ssm": "headrace_aws.secrets.aws_secrets:from_parameter_store",
}


@hookimpl
def headrace_secret_providers() -> dict[str, str]:
    """Return the providers of ``${secretManager:NAME:KEY}`` and ``${ssm:/PATH}``."""
    return _SECRETS


@hookimpl
def headrace_auth_providers() -> dict[str, str]:
    """Return the authentication methods of MSK."""
    return _LOGINS


@hookimpl
def headrace_observers() -> dict[str, str]:
    """Return the observers of runs by the key of the pipeline file that has their options."""
    return _OBSERVERS


@hookimpl
def headrace_filesystems() -> dict[str, str]:
    """Return the file systems by URL scheme."""
    return _FILE_SYSTEMS


__getattr__ = lazy_plugins(__name__, {**_LOGINS, **_OBSERVERS})
