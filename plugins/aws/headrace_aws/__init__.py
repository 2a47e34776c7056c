"""Built-in plugins for AWS: streams of Kinesis, objects of S3, addresses on S3, secrets, MSK's login, Glue's catalog: ``from headrace_aws import S3Sink``."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from headrace.sdk import hookimpl

if TYPE_CHECKING:
    from headrace_aws.glue.catalog import GlueCatalog as GlueCatalog
    from headrace_aws.kinesis.source import KinesisSource as KinesisSource
    from headrace_aws.msk_iam import MskIam as MskIam
    from headrace_aws.s3.sink import S3Sink as S3Sink

_SOURCES = {"kinesis": "headrace_aws.kinesis.source:KinesisSource"}
_SINKS = {"s3": "headrace_aws.s3.sink:S3Sink"}
_LOGINS = {"msk-iam": "headrace_aws.msk_iam:MskIam"}
_CATALOGS = {"glue": "headrace_aws.glue.catalog:GlueCatalog"}
_FILE_SYSTEMS = {"s3a": "headrace_aws.s3a:S3A"}
_SECRETS = {
    "secretManager": "headrace_aws.secrets:from_secrets_manager",
    "ssm": "headrace_aws.secrets:from_parameter_store",
}
#: Class → its module, imported on first use.
_MODULES = {
    class_name: module
    for paths in (_SOURCES, _SINKS, _LOGINS, _CATALOGS)
    for module, _, class_name in (path.partition(":") for path in paths.values())
}


@hookimpl
def headrace_sources() -> dict[str, str]:
    """Transports."""
    return _SOURCES


@hookimpl
def headrace_sinks() -> dict[str, str]:
    """Where objects are kept."""
    return _SINKS


@hookimpl
def headrace_secret_providers() -> dict[str, str]:
    """What ``${secretManager:NAME:KEY}`` and ``${ssm:/PATH}`` stand for."""
    return _SECRETS


@hookimpl
def headrace_auth_providers() -> dict[str, str]:
    """Logins at brokers of AWS's."""
    return _LOGINS


@hookimpl
def headrace_catalogs() -> dict[str, str]:
    """Catalogs of AWS's."""
    return _CATALOGS


@hookimpl
def headrace_filesystems() -> dict[str, str]:
    """Schemes of addresses."""
    return _FILE_SYSTEMS


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(import_module(_MODULES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
