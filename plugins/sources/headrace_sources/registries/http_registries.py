"""Schema registries with an HTTP API: Confluent's (Apicurio serves it at /apis/ccompat), and Apicurio's own."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from headrace.sdk import DataError
from headrace_kafka.registry_client import RegistryClient
from headrace_sources.kafka_connect.connect_schema import UnusableSchemaError
from headrace_sources.limits import SCHEMA_REFERENCES
from headrace_sources.registries.avro_references import collect_named_types, inline_named_types
from headrace_sources.registries.schema_registry import SchemaRegistry, SchemaType

#: What precedes the version in the address of Apicurio's own API.
_APICURIO_PATH = "/apis/registry/"
#: A schema, and its references to others.
_Referring = tuple[Any, Any]


def open_registry(client: RegistryClient) -> SchemaRegistry:
    """Return the registry at the client's address, by the API that the address names."""
    _, _, version = client.url.partition(_APICURIO_PATH)
    return ApicurioRegistry(client, version) if version else ConfluentRegistry(client)


def is_apicurio(url: str) -> bool:
    """Return whether an address is that of Apicurio's own API."""
    return _APICURIO_PATH in url


class HttpRegistry(SchemaRegistry):
    """Base of registries whose schemas may refer to others."""

    def __init__(self, client: RegistryClient) -> None:
        self._client = client

    def fetch_schema(self, id: str, schema_type: SchemaType) -> str:  # noqa: A002 - the registries' word
        try:
            schema, references = self._fetch_by_id(id, schema_type)
            if schema_type == "AVRO":
                types: dict[str, Any] = {}
                self._resolve(references, types, {})
                schema = inline_named_types(schema, types)
            text = json.dumps(schema, ensure_ascii=False)
        except RecursionError:
            fix = "exclude the topic, or remove the nested fields at the source"
            what = f"schema {id} is nested too deeply for a table"
            raise UnusableSchemaError(what, where=self._client.url, fix=fix) from None
        except (AttributeError, KeyError, TypeError):
            raise self._client.reject_response(f"it has no schema {id}") from None
        if references and schema_type == "JSON":
            raise self._data_error(
                f"schema {id} refers to other schemas, which is not supported for JSON",
                fix="exclude the topic, or register schemas without references",
            )
        return text

    @abstractmethod
    def _fetch_by_id(self, id: str, schema_type: SchemaType) -> _Referring:  # noqa: A002 - the registries' word
        """Return the schema of an id."""

    @abstractmethod
    def _fetch_by_path(self, path: str) -> _Referring:
        """Return the Avro schema at the path of a reference."""

    @abstractmethod
    def _reference_path(self, reference: Mapping[str, Any]) -> str:
        """Return the path of the schema that a reference names."""

    def _resolve(self, references: Any, types: dict[str, Any], is_resolved: dict[str, bool]) -> None:
        """Add the named types of references, and of their references, to ``types``.

        ``is_resolved``: path of each schema that was requested → whether all its references were.
        """
        for reference in references or ():
            path = self._reference_path(reference)
            if path in is_resolved:
                if not is_resolved[path]:
                    raise self._reference_error(f"{path} refers to itself, directly or through others")
                continue
            if len(is_resolved) == SCHEMA_REFERENCES:
                raise self._reference_error(f"it refers to more than {SCHEMA_REFERENCES} schemas")
            is_resolved[path] = False
            schema, inner = self._fetch_by_path(path)
            self._resolve(inner, types, is_resolved)
            is_resolved[path] = True
            collect_named_types(schema, types)

    def _reference_error(self, reason: str) -> DataError:
        fix = "register the schema without that reference, or exclude the topic"
        return self._data_error(f"the references of a schema cannot be resolved: {reason}", fix)

    def _foreign_id_error(self, id: str) -> DataError:  # noqa: A002 - the registries' word
        fix = "set `registry:` to the registry that the records were written with: `glue` for AWS Glue"
        return self._data_error(f"a record has the schema id {id}, which is not an id of this registry", fix)

    def _data_error(self, what: str, fix: str) -> DataError:
        return DataError(what, where=self._client.url, fix=fix)


class ConfluentRegistry(HttpRegistry):
    """Confluent's API."""

    def _fetch_by_id(self, id: str, schema_type: SchemaType) -> _Referring:  # noqa: A002 - the registries' word
        id_kind, _, number = id.rpartition("/")
        if id_kind == "glue":
            raise self._foreign_id_error(id)
        if id_kind == "globalId":
            # This API takes content ids: the same number is another schema there.
            raise self._data_error(
                f"a record has Apicurio's global id {number}, which this address cannot look up",
                fix="set `registry:` to Apicurio's own API, which ends in /apis/registry/v2 or /apis/registry/v3",
            )
        path = f"schemas/guids/{number}" if id_kind == "guid" else f"schemas/ids/{number}"
        return self._fetch(path, schema_type)

    def _fetch_by_path(self, path: str) -> _Referring:
        return self._fetch(path, "AVRO")

    def _reference_path(self, reference: Mapping[str, Any]) -> str:
        subject, version = (quote(str(reference[key]), safe="") for key in ("subject", "version"))
        # The registry returns a deleted schema by its id, and the subjects of its references may be deleted too.
        return f"subjects/{subject}/versions/{version}?deleted=true"

    def describe_size(self) -> str:
        subjects = self._client.get("subjects")
        if not isinstance(subjects, list):
            raise self._client.reject_response("it has no list of subjects")
        return f"{len(subjects)} subjects"

    def _fetch(self, path: str, schema_type: SchemaType) -> _Referring:
        response = self._client.get(path)
        response_type = response.get("schemaType", "AVRO")
        if response_type != schema_type:
            raise self._data_error(
                f"the schema is {response_type}, not {schema_type}", fix="set the format to the schema's type"
            )
        try:
            schema = json.loads(response["schema"])
        except ValueError:
            schema = response["schema"]  # a type name without quotes
        return schema, response.get("references")


class ApicurioRegistry(HttpRegistry):
    """Apicurio's own API. ``version``: ``v2`` or ``v3``."""

    def __init__(self, client: RegistryClient, version: str) -> None:
        super().__init__(client)
        self._is_v2 = version == "v2"

    def _fetch_by_id(self, id: str, schema_type: SchemaType) -> _Referring:  # noqa: A002 - the registries' word
        id_kind, _, number = id.rpartition("/")
        if id_kind in ("glue", "guid"):
            raise self._foreign_id_error(id)
        path = f"ids/{id_kind or ('globalId' if self._is_v2 else 'contentId')}s/{number}"
        return self._client.get(path), self._client.get(f"{path}/references")

    def _fetch_by_path(self, path: str) -> _Referring:
        return self._client.get(path if self._is_v2 else f"{path}/content"), self._client.get(f"{path}/references")

    def _reference_path(self, reference: Mapping[str, Any]) -> str:
        group, artifact = (quote(reference.get(key) or "default", safe="") for key in ("groupId", "artifactId"))
        return f"groups/{group}/artifacts/{artifact}/versions/{quote(str(reference['version']), safe='')}"

    def describe_size(self) -> str:
        found = self._client.get("search/artifacts?limit=1")
        if not isinstance(found, dict) or "count" not in found:
            raise self._client.reject_response("it has no count of artifacts")
        return f"{found['count']} artifacts"
