"""What Iceberg needs to talk to AWS: Glue's catalog, files on S3, REST catalogs that want signed requests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from headrace.sdk import Plugin

_CLASSES = "org.apache.iceberg.aws."


class AwsBundle(Plugin):
    """AWS's clients as Iceberg's authors bundle them: a part of the sink whose catalog is AWS's."""

    name = "iceberg-aws"
    api_version = 1
    jars: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "3.5": ("org.apache.iceberg:iceberg-aws-bundle:1.12.0",),
        "4.0": ("org.apache.iceberg:iceberg-aws-bundle:1.11.0",),
    }
    #: Iceberg's own classes for AWS are in its runtime: what the bundle has are the clients.
    jvm_class = "software.amazon.awssdk.services.glue.GlueClient"


def needs_aws(catalog: Mapping[str, str]) -> bool:
    """Whether a catalog of these properties works with the bundle alone."""
    return (
        catalog.get("type", "").lower() == "glue"
        or catalog.get("rest.sigv4-enabled") == "true"
        or catalog.get("rest.auth.type") == "sigv4"
        or any(value.startswith(_CLASSES) for value in catalog.values())
    )
