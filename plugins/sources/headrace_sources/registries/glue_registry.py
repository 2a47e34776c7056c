"""AWS Glue's schema registry."""

from __future__ import annotations

import os
from typing import Any

from headrace.sdk import ConfigError, DataError, HeadraceError, RetriableError
from headrace_sources.registries.registry_client import PAUSES, SILENCE
from headrace_sources.registries.schema_registry import SchemaRegistry, SchemaType

_LOGIN_CODES = ("AccessDenied", "UnrecognizedClient", "InvalidSignature", "ExpiredToken", "InvalidClientTokenId")


class GlueRegistry(SchemaRegistry):
    """Registry of a region. boto3 finds the credentials, and the region if none is set (environment, profile, role).

    Its ids are ``glue/<version id>``.
    """

    def __init__(self, region: str | None, endpoint: str | None) -> None:
        self._region, self._endpoint = region, endpoint
        self._client: Any = None
        #: Version id → schema. A version never changes.
        self._schemas: dict[str, str] = {}

    def fetch_schema(self, id: str, schema_type: SchemaType) -> str:  # noqa: A002 - the registries' word
        id_kind, _, version = id.rpartition("/")
        if id_kind != "glue":
            raise DataError(
                f"a record has the schema id {id}, which is not an id of AWS Glue",
                fix="set `registry:` to the address of the registry that the records were written with",
            )
        if version in self._schemas:
            return self._schemas[version]
        response = self._call("get_schema_version", SchemaVersionId=version)
        if response["DataFormat"] != schema_type:
            what = f"the schema is {response['DataFormat']}, not {schema_type}"
            raise DataError(what, where=f"AWS Glue, version {version}")
        return self._schemas.setdefault(version, str(response["SchemaDefinition"]))

    def describe_size(self) -> str:
        return f"{len(self._call('list_registries')['Registries'])} registries"

    def _call(self, operation: str, **parameters: str) -> dict[str, Any]:
        try:
            if self._client is None:
                self._client = _make_client(self._region, self._endpoint)
            response: dict[str, Any] = getattr(self._client, operation)(**parameters)
        except HeadraceError:
            raise
        except Exception as error:
            raise _explain(error, " ".join(parameters.values())) from error
        return response


def _make_client(region: str | None, endpoint: str | None) -> Any:
    try:
        import boto3
    except ModuleNotFoundError as error:
        raise ConfigError("AWS Glue needs boto3", fix="pip install 'headrace[aws]'") from error
    from botocore.config import Config

    # botocore does not follow redirects.
    limits = Config(connect_timeout=SILENCE, read_timeout=SILENCE, retries={"total_max_attempts": len(PAUSES) + 1})
    # AWS containers set AWS_REGION, which boto3 does not read. A new session reads the credentials again.
    region = region or os.environ.get("AWS_REGION")
    return boto3.Session().client("glue", region_name=region, endpoint_url=endpoint, config=limits)


def _explain(error: Exception, version: str) -> HeadraceError:
    from botocore.exceptions import ClientError, NoCredentialsError, NoRegionError, PartialCredentialsError

    where = f"AWS Glue, version {version}" if version else "AWS Glue"
    if isinstance(error, NoRegionError):
        return ConfigError(
            "no AWS region is set",
            where=where,
            fix="add `region: eu-west-1` next to `registry: glue`, or set AWS_REGION",
        )
    code = error.response.get("Error", {}).get("Code", "") if isinstance(error, ClientError) else ""
    if isinstance(error, NoCredentialsError | PartialCredentialsError) or code.startswith(_LOGIN_CODES):
        fix = "provide credentials that may call glue:GetSchemaVersion: a role, a profile, or AWS_ACCESS_KEY_ID"
        return ConfigError(f"AWS rejected the credentials: {error}", where=where, fix=fix)
    if code in ("EntityNotFoundException", "InvalidInputException"):
        fix = "check that the records were written in this region and account; nothing of this batch was written"
        return DataError(f"no such schema: {error}", where=where, fix=fix)
    return RetriableError(
        f"AWS Glue did not respond: {error}", where=where, fix="no data is lost; the request is retried"
    )
