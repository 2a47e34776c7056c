"""Schemas from AWS Glue's schema registry, by the version id that a record names."""

from __future__ import annotations

import os
from typing import Any

from headrace.sdk import ConfigError, DataError, HeadraceError, RetriableError
from headrace_sources.registries.registry_client import PAUSES, SILENCE

_LOGIN_CODES = ("AccessDenied", "UnrecognizedClient", "InvalidSignature", "ExpiredToken", "InvalidClientTokenId")


class GlueRegistry:
    """The registry of a region, with the region and the credentials that boto3 finds (environment, profile, role)."""

    def __init__(self, region: str | None, endpoint: str | None) -> None:
        self._region, self._endpoint = region, endpoint
        self._client: Any = None
        #: A version of a schema stays what it is, whatever topics have it.
        self._schemas: dict[str, str] = {}

    def avro(self, id: str) -> str:  # noqa: A002 - the registries' word
        """The Avro schema of a version: ``glue/<version id>``.

        RetriableError when Glue does not answer, ConfigError when it lets nobody in, DataError when it knows no such version.
        """
        id_kind, _, version = id.rpartition("/")
        if id_kind != "glue":
            raise DataError(
                f"a record's schema has the id {id}, which is none of AWS Glue's",
                fix="set `registry:` to the address of the registry that the records were written with",
            )
        if version in self._schemas:
            return self._schemas[version]
        answer = self._ask("get_schema_version", SchemaVersionId=version)
        if answer["DataFormat"] != "AVRO":
            raise DataError(f"the schema is {answer['DataFormat']}, and not AVRO", where=f"AWS Glue, version {version}")
        return self._schemas.setdefault(version, str(answer["SchemaDefinition"]))

    def size(self) -> str:
        """How many registries it shows to this login, in words."""
        return f"{len(self._ask('list_registries')['Registries'])} registries"

    def _ask(self, operation: str, **parameters: str) -> dict[str, Any]:
        try:
            if self._client is None:
                self._client = _make_client(self._region, self._endpoint)
            answer: dict[str, Any] = getattr(self._client, operation)(**parameters)
        except HeadraceError:
            raise
        except Exception as error:
            raise _explain(error, " ".join(parameters.values())) from error
        return answer


def _make_client(region: str | None, endpoint: str | None) -> Any:
    try:
        import boto3
    except ModuleNotFoundError as error:
        raise ConfigError("AWS Glue needs boto3", fix="pip install 'headrace[aws]'") from error
    from botocore.config import Config

    # It follows no redirect.
    limits = Config(connect_timeout=SILENCE, read_timeout=SILENCE, retries={"total_max_attempts": len(PAUSES) + 1})
    # Containers of AWS have the variable AWS_REGION, which boto3 does not know. A session of its own reads again who it is.
    region = region or os.environ.get("AWS_REGION")
    return boto3.Session().client("glue", region_name=region, endpoint_url=endpoint, config=limits)


def _explain(error: Exception, version: str) -> HeadraceError:
    from botocore.exceptions import ClientError, NoCredentialsError, NoRegionError, PartialCredentialsError

    where = f"AWS Glue, version {version}" if version else "AWS Glue"
    if isinstance(error, NoRegionError):
        return ConfigError(
            "no region is named", where=where, fix="add `region: eu-west-1` beside `registry: glue`, or set AWS_REGION"
        )
    code = error.response.get("Error", {}).get("Code", "") if isinstance(error, ClientError) else ""
    if isinstance(error, NoCredentialsError | PartialCredentialsError) or code.startswith(_LOGIN_CODES):
        fix = "give boto3 credentials that may call glue:GetSchemaVersion: a role, a profile, or AWS_ACCESS_KEY_ID"
        return ConfigError(f"AWS lets nobody in: {error}", where=where, fix=fix)
    if code in ("EntityNotFoundException", "InvalidInputException"):
        fix = "look whether the records were written in this region and account; nothing of this batch was written"
        return DataError(f"it has no such schema: {error}", where=where, fix=fix)
    return RetriableError(f"AWS Glue does not answer: {error}", where=where, fix="nothing is lost")
