"""AWS clients for Iceberg: the Glue catalog, files on S3, and REST catalogs that require signed requests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from headrace.sdk import Plugin

_CLASSES = "org.apache.iceberg.aws."


class AwsBundle(Plugin):
    """Iceberg's bundle of AWS clients: a part of a sink whose catalog is on AWS."""

    name = "iceberg-aws"
    api_version = 1
    jars: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "3.5": ("org.apache.iceberg:iceberg-aws-bundle:1.12.0",),
        "4.0": ("org.apache.iceberg:iceberg-aws-bundle:1.11.0",),
        "4.1": ("org.apache.iceberg:iceberg-aws-bundle:1.12.0",),
    }
    #: A class of the bundle: Iceberg's own classes for AWS are in Iceberg's runtime jar.
    jvm_class = "software.amazon.awssdk.services.glue.GlueClient"


def needs_aws(catalog: Mapping[str, str]) -> bool:
    """Return whether a catalog with these properties requires the bundle."""
    return (
        catalog.get("type", "").lower() == "glue"
        or catalog.get("rest.sigv4-enabled") == "true"
        or catalog.get("rest.auth.type") == "sigv4"
        or any(value.startswith(_CLASSES) for value in catalog.values())
    )
