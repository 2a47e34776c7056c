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
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlsplit
from urllib.request import Request, urlopen

from headrace.sdk import ConfigError, DataError, HeadraceError, RetriableError

#: Seconds that an answer may take, and the pauses between tries.
TIMEOUT, PAUSES = 10, (0.5, 1.0, 2.0)
#: What OpenSSL says where the other side misses a certificate, or does not trust the one that it was shown.
_UNWELCOME = r"ALERT_(BAD_CERTIFICATE|CERTIFICATE_|HANDSHAKE_FAILURE|UNKNOWN_CA)"
#: The other side hangs up: what it is called depends on how far both had come.
_HANGS_UP = (ssl.SSLEOFError, ssl.SSLZeroReturnError, ConnectionError)


class Registry:
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
        schema, references = self._fetch(id, "AVRO")
        named: dict[str, Any] = {}
        self._resolve(references, named)
        return json.dumps(_inline(schema, named, ""), ensure_ascii=False)

    def json(self, id: str) -> str:  # noqa: A002 - the registries' word
        """The schema of JSON records of an id: a JSON Schema, or one of Kafka Connect's own; errors as ``avro``."""
        schema, references = self._fetch(id, "JSON")
        if references:
            raise DataError(
                f"the schema {id} refers to others, which is not read",
                where=self.url,
                fix="leave the topic out, or write its records with schemas that are whole",
            )
        return json.dumps(schema, ensure_ascii=False)

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

    def _resolve(self, references: Any, named: dict[str, Any]) -> None:
        """Adds the named types of references, and of theirs, to ``named``."""
        for reference in references or ():
            if self.apicurio:
                group, name = (quote(reference.get(key) or "default", safe="") for key in ("groupId", "artifactId"))
                path = f"groups/{group}/artifacts/{name}/versions/{quote(str(reference['version']), safe='')}"
                schema = self._get(path if self.apicurio == "v2" else f"{path}/content")
                inner = self._get(f"{path}/references")
            else:
                path = f"subjects/{quote(reference['subject'], safe='')}/versions/{reference['version']}"
                schema, inner = self._read_confluent(self._get(path), "AVRO")
            self._resolve(inner, named)
            _collect_named_types(schema, named, "")

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
            try:
                with urlopen(Request(address, headers=self._headers), timeout=TIMEOUT, context=tls) as answer:  # noqa: S310 - checked in RegistryConfig
                    return json.loads(answer.read())
            except HTTPError as error:
                problem = _explain_refusal(error, address)
            except (URLError, OSError, HTTPException) as error:
                problem = self._explain_silence(error)
            except ValueError:
                problem = ConfigError(
                    "what answers is no schema registry: it did not send JSON",
                    where=address,
                    fix="correct `registry:`; Confluent's has no path, Apicurio's ends in /apis/ccompat/v7 or /apis/registry/v3",
                )
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


def _explain_refusal(error: HTTPError, address: str) -> HeadraceError:
    """What a registry's refusal means."""
    text = error.read().decode(errors="replace")[:200].strip()
    what = f"the schema registry answers {error.code} {error.reason}" + (f": {text}" if text else "")
    if error.code in (401, 403):
        fix = "correct `basic.auth.user.info`, `bearer.auth.token` or the certificate"
        return ConfigError(what, where=address, fix=fix)
    if error.code == 404:
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
