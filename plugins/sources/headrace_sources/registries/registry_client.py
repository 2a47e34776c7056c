"""Schemas by id from a schema registry: Confluent's interface (Apicurio speaks it at /apis/ccompat), or Apicurio's own."""

from __future__ import annotations

import base64
import json
import re
import ssl
import time
from collections.abc import Mapping
from http.client import HTTPException
from typing import Any
from urllib.error import URLError
from urllib.parse import quote, urlsplit
from urllib.request import Request

from headrace.sdk import ConfigError, DataError, HeadraceError, LoginError, RetriableError
from headrace.sdk.http import RedirectError, Response, ResponseTooLargeError, send
from headrace_sources.kafka_connect.connect_schema import EndlessSchemaError

#: Seconds that a registry may be silent, and that an answer may take as a whole; the pauses between tries.
SILENCE, TIMEOUT, PAUSES = 10.0, 30.0, (0.5, 1.0, 2.0)
#: Of an answer. A schema of a thousand columns has less than one of these.
MOST_BYTES = 32 << 20
#: Schemas that one may refer to, itself or by others.
MAX_REFERENCES = 100
#: What OpenSSL says where the other side misses a certificate, or does not trust the one that it was shown.
_UNWELCOME = r"ALERT_(BAD_CERTIFICATE|CERTIFICATE_|HANDSHAKE_FAILURE|UNKNOWN_CA)"
#: The other side hangs up: what it is called depends on how far both had come.
_HANGS_UP = (ssl.SSLEOFError, ssl.SSLZeroReturnError, ConnectionError)
_FIX_ADDRESS = "correct `registry:`; Confluent's has no path, Apicurio's ends in /apis/ccompat/v7 or /apis/registry/v3"


class SchemaRegistryClient:
    """A registry at ``url``. ``login`` is ``user:password``, ``token`` a bearer token; the others are PEM files."""

    def __init__(
        self,
        url: str,
        *,
        login: str | None = None,
        token: str | None = None,
        ca: str | None = None,
        certificate: str | None = None,
        key: str | None = None,
    ) -> None:
        self.url = url.rstrip("/")
        self._headers = {"Accept": "application/json, application/vnd.schemaregistry.v1+json"}
        if login is not None:
            self._headers["Authorization"] = "Basic " + base64.b64encode(login.encode()).decode()
        elif token is not None:
            self._headers["Authorization"] = f"Bearer {token}"
        self._files = ca, certificate, key

    @property
    def apicurio(self) -> str | None:
        """``v2`` or ``v3`` where the address is that of Apicurio's own interface."""
        _, _, version = self.url.partition("/apis/registry/")
        return version or None

    def avro(self, id: str) -> str:  # noqa: A002 - the registries' word
        """The Avro schema of an id, with what it refers to put in; ``id`` may say its kind: ``contentId/7``.

        RetriableError when the registry does not answer, ConfigError when it lets nobody in, DataError when it knows no
        such schema.
        """
        try:
            schema, references = self._fetch(id, "AVRO")
            named: dict[str, Any] = {}
            self._resolve(references, named, {})
            return json.dumps(_inline(schema, named, ""), ensure_ascii=False)
        except RecursionError:
            raise self._refuse_depth(id) from None

    def json(self, id: str) -> str:  # noqa: A002 - the registries' word
        """The schema of JSON records of an id: a JSON Schema, or one of Kafka Connect's own; errors as ``avro``."""
        try:
            schema, references = self._fetch(id, "JSON")
            text = json.dumps(schema, ensure_ascii=False)
        except RecursionError:
            raise self._refuse_depth(id) from None
        if references:
            raise DataError(
                f"the schema {id} refers to others, which is not read",
                where=self.url,
                fix="leave the topic out, or write its records with schemas that are whole",
            )
        return text

    def _fetch(self, id: str, schema_type: str) -> tuple[Any, Any]:  # noqa: A002 - the registries' word
        """The schema of an id, and what it refers to."""
        id_kind, _, number = id.rpartition("/")
        if id_kind == "glue" or (self.apicurio and id_kind == "guid"):
            raise DataError(
                f"a record's schema has the id {id}, which is none of this registry's",
                where=self.url,
                fix="set `registry:` to the one that the records were written with: `glue` for AWS Glue",
            )
        if id_kind == "globalId" and not self.apicurio:
            # Its ids are those of contents: under the same number it has another schema.
            raise DataError(
                f"a record's schema has Apicurio's global id {number}, which cannot be asked for at this address",
                where=self.url,
                fix="set `registry:` to Apicurio's own interface, which ends in /apis/registry/v2 or /apis/registry/v3",
            )
        if self.apicurio:
            plural = f"{id_kind or ('globalId' if self.apicurio == 'v2' else 'contentId')}s"
            return self._get(f"ids/{plural}/{number}"), self._get(f"ids/{plural}/{number}/references")
        path = f"schemas/guids/{number}" if id_kind == "guid" else f"schemas/ids/{number}"
        return self._read_confluent(self._get(path), schema_type)

    def size(self) -> str:
        """How many schemas it shows to this login, in words."""
        if self.apicurio:
            return f"{self._get('search/artifacts?limit=1')['count']} artifacts"
        return f"{len(self._get('subjects'))} subjects"

    def _resolve(self, references: Any, named: dict[str, Any], met: dict[str, bool]) -> None:
        """Adds the named types of references, and of theirs, to ``named``.

        ``met``: the place of each that was asked for, and whether all that it refers to is there.
        """
        for reference in references or ():
            place = self._place_of(reference)
            if place in met:
                if not met[place]:
                    raise self._refuse_references(f"{place} refers to itself, or to one that refers to it")
                continue
            if len(met) == MAX_REFERENCES:
                raise self._refuse_references(f"it refers to more than {MAX_REFERENCES} others")
            met[place] = False
            if self.apicurio:
                schema = self._get(place if self.apicurio == "v2" else f"{place}/content")
                inner = self._get(f"{place}/references")
            else:
                schema, inner = self._read_confluent(self._get(place), "AVRO")
            self._resolve(inner, named, met)
            met[place] = True
            _collect_named_types(schema, named, "")

    def _place_of(self, reference: Mapping[str, Any]) -> str:
        """Where the registry has what a reference names."""
        version = quote(str(reference["version"]), safe="")
        if self.apicurio:
            group, name = (quote(reference.get(key) or "default", safe="") for key in ("groupId", "artifactId"))
            return f"groups/{group}/artifacts/{name}/versions/{version}"
        return f"subjects/{quote(reference['subject'], safe='')}/versions/{version}"

    def _refuse_references(self, why: str) -> DataError:
        fix = "register the schema without that reference, or leave the topic out"
        return DataError(f"a schema cannot be put together: {why}", where=self.url, fix=fix)

    def _refuse_depth(self, id: str) -> DataError:  # noqa: A002 - the registries' word
        fix = "leave the topic out, or the fields where the events are made"
        return EndlessSchemaError(
            f"the schema {id} is nested so deep that no table can hold it", where=self.url, fix=fix
        )

    def _read_confluent(self, answer: Any, schema_type: str) -> tuple[Any, Any]:
        """The schema in an answer of Confluent's interface, and what it refers to."""
        answer_type = answer.get("schemaType", "AVRO")
        if answer_type != schema_type:
            raise DataError(
                f"the schema is {answer_type}, and not {schema_type}",
                where=self.url,
                fix="name the format that it is",
            )
        return _parse(answer["schema"]), answer.get("references")

    def _get(self, path: str) -> Any:
        address = f"{self.url}/{path}"
        tls = self._make_tls_context()
        for pause in (*PAUSES, None):
            problem: HeadraceError
            try:
                request = Request(address, headers=self._headers)  # noqa: S310 - checked in RegistryConfig
                answer = send(request, idle_timeout=SILENCE, timeout=TIMEOUT, max_bytes=MOST_BYTES, tls=tls)
                if answer.status < 300:
                    return json.loads(answer.body)
                problem = _explain_refusal(answer, address)
            except RedirectError as error:
                fix = "set `registry:` to that address if it is the registry's: logins are not sent on to another host"
                problem = ConfigError(f"the schema registry redirects to {error.address}", where=address, fix=fix)
            except ResponseTooLargeError as error:
                problem = ConfigError(f"what answers is no schema registry: {error}", where=address, fix=_FIX_ADDRESS)
            except (OSError, HTTPException) as error:
                problem = self._explain_silence(error)
            except ValueError:
                what = "what answers is no schema registry: it did not send JSON"
                problem = ConfigError(what, where=address, fix=_FIX_ADDRESS)
            if pause is None or not isinstance(problem, RetriableError):
                raise problem
            time.sleep(pause)
        raise AssertionError("unreachable")

    def _explain_silence(self, error: Exception) -> HeadraceError:
        """What it means that a registry does not answer."""
        reason = error.reason if isinstance(error, URLError) else error
        fix = "look whether it runs; nothing is lost"
        # Who hangs up without a word may do so for the certificate, too: the word and the end overtake each other.
        if isinstance(reason, _HANGS_UP) and self.url.startswith("https:"):
            fix = "look whether it runs, and whether it trusts what `ssl.certificate.location` names; nothing is lost"
        elif isinstance(reason, ssl.SSLError):
            fix = "set `ssl.ca.location` to the certificate that signed the registry's, and `https://` where it is one"
            if re.search(_UNWELCOME, str(reason)):
                fix = "set `ssl.certificate.location` and `ssl.key.location` to a certificate that the registry trusts"
            return ConfigError(f"no TLS connection came about: {reason}", where=self.url, fix=fix)
        return RetriableError(f"the schema registry does not answer: {reason}", where=self.url, fix=fix)

    def _make_tls_context(self) -> ssl.SSLContext | None:
        ca, certificate, key = self._files
        if urlsplit(self.url).scheme != "https":
            return None
        named = f"`ssl.ca.location`, {ca},"
        try:
            context = ssl.create_default_context(cafile=ca)
            if certificate:
                named = f"`ssl.certificate.location`, {' and '.join(filter(None, (certificate, key)))},"
                # Without a password OpenSSL would ask the terminal for that of a key that has one.
                context.load_cert_chain(certificate, key, password=lambda: "")
        except OSError as error:
            fix = "name PEM files that are there; a key must be that of its certificate, and have no password"
            raise ConfigError(f"{named} cannot be used: {error.strerror}", where=self.url, fix=fix) from error
        return context


def _explain_refusal(answer: Response, address: str) -> HeadraceError:
    """What a registry's refusal means."""
    text = answer.body.decode(errors="replace")[:200].strip()
    what = f"the schema registry answers {answer.status} {answer.reason}" + (f": {text}" if text else "")
    if answer.status in (401, 403):
        fix = "correct `basic.auth.user.info`, `bearer.auth.token` or the certificate"
        return LoginError(what, where=address, fix=fix)
    if answer.status == 404:
        fix = "look whether the records were written with this registry; nothing of this batch was written"
        return DataError(what, where=address, fix=fix)
    return RetriableError(what, where=address, fix="look at the registry's log; nothing is lost")


_PRIMITIVE = {"null", "boolean", "int", "long", "float", "double", "bytes", "string"}
_NAMED = ("record", "enum", "fixed", "error")


def _parse(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text  # a bare name: "string"


def _collect_named_types(schema: Any, named: dict[str, Any], namespace: str) -> None:
    """Adds the named types that a schema defines at its top to ``named``, by their full names."""
    if isinstance(schema, list):
        for member in schema:
            _collect_named_types(member, named, namespace)
    elif isinstance(schema, dict) and schema.get("type") in _NAMED:
        named[_full_name(schema["name"], schema.get("namespace", namespace))] = schema


def _inline(schema: Any, named: dict[str, Any], namespace: str) -> Any:
    """The schema with each type that it only names defined where it is named first; ``named`` loses those."""
    if isinstance(schema, str):
        name = schema if schema in named else _full_name(schema, namespace)
        return _inline(named.pop(name), named, "") if schema not in _PRIMITIVE and name in named else schema
    if isinstance(schema, list):
        return [_inline(member, named, namespace) for member in schema]
    if not isinstance(schema, Mapping):
        return schema
    inner = dict(schema)
    if schema.get("type") in _NAMED:
        full = _full_name(schema["name"], schema.get("namespace", namespace))
        namespace = full.rpartition(".")[0]
    for key in ("type", "items", "values"):
        if key in inner and not (key == "type" and inner[key] in _NAMED):
            inner[key] = _inline(inner[key], named, namespace)
    if "fields" in inner:
        inner["fields"] = [_inline(field, named, namespace) for field in inner["fields"]]
    return inner


def _full_name(name: str, namespace: str) -> str:
    return name if "." in name or not namespace else f"{namespace}.{name}"
