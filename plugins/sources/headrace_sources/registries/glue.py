"""Schemas from AWS Glue's schema registry, by the version id that a record names."""

from __future__ import annotations

from typing import Any

from headrace.sdk import ConfigError, DataError, HeadraceError, RetriableError

_LOGIN = ("AccessDenied", "UnrecognizedClient", "InvalidSignature", "ExpiredToken", "InvalidClientTokenId")


class GlueRegistry:
    """The registry of a region, with the credentials that boto3 finds (environment, profile, role)."""

    def __init__(self, region: str | None, endpoint: str | None) -> None:
        self._region, self._endpoint = region, endpoint
        self._made: Any = None

    def avro(self, id: str) -> str:  # noqa: A002 - the registries' word
        """The Avro schema of a version: ``glue/<version id>``.

        RetriableError when Glue does not answer, ConfigError when it lets nobody in, DataError when it knows no such version.
        """
        kind, _, version = id.rpartition("/")
        if kind != "glue":
            raise DataError(
                f"a record's schema has the id {id}, which is none of AWS Glue's",
                fix="set `registry:` to the address of the registry that the records were written with",
            )
        found = self._asked("get_schema_version", SchemaVersionId=version)
        if found["DataFormat"] != "AVRO":
            raise DataError(f"the schema is {found['DataFormat']}, and not AVRO", where=f"AWS Glue, version {version}")
        return str(found["SchemaDefinition"])

    def size(self) -> str:
        """How many registries it shows to this login, in words."""
        return f"{len(self._asked('list_registries')['Registries'])} registries"

    def _asked(self, operation: str, **question: str) -> dict[str, Any]:
        try:
            if self._made is None:
                self._made = _client(self._region, self._endpoint)
            answer: dict[str, Any] = getattr(self._made, operation)(**question)
        except HeadraceError:
            raise
        except Exception as error:
            raise _said(error, " ".join(question.values())) from error
        return answer


def _client(region: str | None, endpoint: str | None) -> Any:
    try:
        import boto3
    except ModuleNotFoundError as error:
        raise ConfigError("AWS Glue needs boto3", fix="pip install 'headrace[aws]'") from error
    return boto3.client("glue", region_name=region, endpoint_url=endpoint)


def _said(error: Exception, version: str) -> HeadraceError:
    from botocore.exceptions import ClientError, NoCredentialsError, NoRegionError, PartialCredentialsError

    where = f"AWS Glue, version {version}" if version else "AWS Glue"
    if isinstance(error, NoRegionError):
        return ConfigError("no region is named", where=where, fix="add `region: eu-west-1` beside `registry: glue`")
    code = error.response.get("Error", {}).get("Code", "") if isinstance(error, ClientError) else ""
    if isinstance(error, NoCredentialsError | PartialCredentialsError) or code.startswith(_LOGIN):
        fix = "give boto3 credentials that may call glue:GetSchemaVersion: a role, a profile, or AWS_ACCESS_KEY_ID"
        return ConfigError(f"AWS lets nobody in: {error}", where=where, fix=fix)
    if code in ("EntityNotFoundException", "InvalidInputException"):
        fix = "look whether the records were written in this region and account; nothing of this batch was written"
        return DataError(f"it has no such schema: {error}", where=where, fix=fix)
    return RetriableError(f"AWS Glue does not answer: {error}", where=where, fix="nothing is lost")
