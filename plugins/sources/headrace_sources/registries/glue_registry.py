"""AWS Glue's schema registry."""

from __future__ import annotations

import os
from typing import Any

from headrace.sdk import ConfigError, DataError, HeadraceError, LoginError
from headrace_aws.clients import error_code, explain_error, make_client, open_session
from headrace_kafka.registry_client import PAUSES
from headrace_sources.registries.schema_registry import SchemaRegistry, SchemaType


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
            explained = _explain(error, operation, " ".join(parameters.values()))
            if isinstance(explained, LoginError):
                self._client = None  # A new client reads the current credentials.
            raise explained from error
        return response


def _make_client(region: str | None, endpoint: str | None) -> Any:
    session = open_session("Glue")
    # AWS containers set AWS_REGION, which boto3 does not read.
    region = region or os.environ.get("AWS_REGION") or session.region_name
    if region is None:
        fix = "add `region: eu-west-1` next to `registry: glue`, or set AWS_REGION"
        raise ConfigError("no AWS region is set", where="AWS Glue", fix=fix)
    return make_client("glue", region, session, endpoint=endpoint, attempts=len(PAUSES) + 1)


def _explain(error: Exception, operation: str, version: str) -> HeadraceError:
    where = f"AWS Glue, version {version}" if version else "AWS Glue"
    if error_code(error) in ("EntityNotFoundException", "InvalidInputException"):
        fix = "check that the records were written in this region and account; nothing of this batch was written"
        return DataError(f"no such schema: {error}", where=where, fix=fix)
    action = "".join(word.capitalize() for word in operation.split("_"))
    return explain_error(error, f"glue:{action}", where=where)
