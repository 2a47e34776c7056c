"""HTTP client of a schema registry: authentication, TLS, limits, and retries."""

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
from urllib.parse import urlsplit
from urllib.request import Request

from headrace.sdk import ConfigError, DataError, HeadraceError, LoginError, RetriableError
from headrace.sdk.http import RedirectError, Response, ResponseTooLargeError, send

#: Seconds without a byte, seconds for a whole response, and the pauses between attempts.
SILENCE, TIMEOUT, PAUSES = 10.0, 30.0, (0.5, 1.0, 2.0)
#: Bytes of a response. The schema of a thousand columns has less than one megabyte.
REGISTRY_RESPONSE_BYTES = 32 << 20
#: OpenSSL's names of the alerts that a server sends when it misses a client certificate or does not trust it.
_CERTIFICATE_ALERT = r"ALERT_(BAD_CERTIFICATE|CERTIFICATE_|HANDSHAKE_FAILURE|UNKNOWN_CA)"
#: The server closed the connection. Which of these is raised depends on how far the handshake was.
_CLOSED = (ssl.SSLEOFError, ssl.SSLZeroReturnError, ConnectionError)
_CONTENT_TYPE = "application/vnd.schemaregistry.v1+json"
_FIX_ADDRESS = (
    "correct `registry:`; Confluent's address has no path, Apicurio's ends in /apis/ccompat/v7 or /apis/registry/v3"
)
_FIX_READ = "allow this user to read schemas and subjects: DeveloperRead on the subjects in Confluent's registry, sr-readonly in Apicurio"
_FIX_WRITE = (
    "allow this user to write schemas: DeveloperWrite on the subjects in Confluent's registry, sr-developer in Apicurio"
)
#: Characters of the reasons for which a registry refuses a schema. Confluent's registry appends the whole earlier schema.
_REFUSAL_CHARACTERS = 500
#: Replacement of a login in an error.
_HIDDEN = "******"


class RegistryRefusalError(DataError):
    """Request that a registry refuses for its content."""

    #: 404, 409 or 422.
    status: int = 0


class RegistryClient:
    """Client of the registry at ``url``. ``login`` is ``user:password``, ``token`` a bearer token; the others are PEM files."""

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
        self._headers = {"Accept": f"application/json, {_CONTENT_TYPE}"}
        if login is not None:
            self._headers["Authorization"] = "Basic " + base64.b64encode(login.encode()).decode()
        elif token is not None:
            self._headers["Authorization"] = f"Bearer {token}"
        self._secrets = [one for one in (self._headers.get("Authorization", "").partition(" ")[2], login, token) if one]
        self._files = ca, certificate, key

    def get(self, path: str) -> Any:
        """Return the JSON at a path.

        RetriableError when the registry does not respond, ConfigError when it rejects the credentials or is no registry,
        RegistryRefusalError when it has no such path.
        """
        return self._request(path)

    def post(self, path: str, content: Mapping[str, Any]) -> Any:
        """Send JSON to a path and return the JSON of the response. Errors are those of ``get``.

        RegistryRefusalError also when the registry refuses the content.
        """
        return self._request(path, json.dumps(content).encode())

    def _request(self, path: str, body: bytes | None = None) -> Any:
        address = f"{self.url}/{path}"
        tls = self._make_tls_context()
        for pause in (*PAUSES, None):
            problem: HeadraceError
            try:
                headers = self._headers if body is None else {**self._headers, "Content-Type": _CONTENT_TYPE}
                request = Request(address, body, headers)  # noqa: S310 - checked in RegistryConfig
                answer = send(
                    request, idle_timeout=SILENCE, timeout=TIMEOUT, max_bytes=REGISTRY_RESPONSE_BYTES, tls=tls
                )
                if answer.status < 300:
                    return json.loads(answer.body)
                problem = self._explain_status(answer, address, _FIX_READ if body is None else _FIX_WRITE)
            except RedirectError as error:
                fix = "set `registry:` to that address if it is the registry: credentials are not sent to another host"
                problem = ConfigError(f"the schema registry redirects to {error.address}", where=address, fix=fix)
            except ResponseTooLargeError as error:
                problem = ConfigError(f"the server is not a schema registry: {error}", where=address, fix=_FIX_ADDRESS)
            except (OSError, HTTPException) as error:
                problem = self._explain_connection(error)
            except (ValueError, RecursionError):
                what = "the server is not a schema registry: its response is not JSON"
                problem = ConfigError(what, where=address, fix=_FIX_ADDRESS)
            if pause is None or not isinstance(problem, RetriableError):
                raise problem
            time.sleep(pause)
        raise AssertionError("unreachable")

    def reject_response(self, reason: str) -> ConfigError:
        """Return the error for a JSON response of another server."""
        return ConfigError(
            f"the server is not a schema registry: {reason} in its response", where=self.url, fix=_FIX_ADDRESS
        )

    def _explain_connection(self, error: Exception) -> HeadraceError:
        """Return the user's error for a connection that failed."""
        reason = error.reason if isinstance(error, URLError) else error
        fix = "check that the registry is running; no data is lost"
        # A server that rejects the client certificate may close the connection before its alert arrives.
        if isinstance(reason, _CLOSED) and self.url.startswith("https:"):
            fix = "check that the registry is running and trusts `ssl.certificate.location`; no data is lost"
        elif isinstance(reason, ssl.SSLError):
            fix = "set `ssl.ca.location` to the certificate that signed the registry's certificate; use `http://` if it has no TLS"
            if re.search(_CERTIFICATE_ALERT, str(reason)):
                fix = "set `ssl.certificate.location` and `ssl.key.location` to a certificate that the registry trusts"
            return ConfigError(f"TLS handshake failed: {reason}", where=self.url, fix=fix)
        return RetriableError(f"the schema registry did not respond: {reason}", where=self.url, fix=fix)

    def _explain_status(self, answer: Response, address: str, fix_permission: str) -> HeadraceError:
        """Return the user's error for a response with an error status."""
        # A proxy may quote the request. Its login is hidden before the text is cut.
        reason, text = answer.reason, answer.body.decode(errors="replace")
        for secret in self._secrets:
            reason, text = reason.replace(secret, _HIDDEN), text.replace(secret, _HIDDEN)
        is_refused = answer.status in (409, 422)
        text = text[: _REFUSAL_CHARACTERS if is_refused else 200].strip()
        what = f"the schema registry returned {answer.status} {reason}" + (f": {text}" if text else "")
        if answer.status == 401:
            fix = "correct `basic.auth.user.info`, `bearer.auth.token` or the certificate"
            return LoginError(what, where=address, fix=fix)
        if answer.status == 403:
            return ConfigError(f"permission denied: {what}", where=address, fix=fix_permission)
        # A proxy or a load balancer in front of the registry has other pages.
        if is_refused or (answer.status == 404 and (not text or text.startswith("{"))):
            fix = "check that the records were written with this registry; nothing of this batch was written"
            refusal = RegistryRefusalError(what, where=address, fix=fix)
            refusal.status = answer.status
            return refusal
        fix = "see the registry's log; no data is lost"
        if answer.status == 404:
            fix = f"check that the path of `registry:` is correct, and {fix}"
        return RetriableError(what, where=address, fix=fix)

    def _make_tls_context(self) -> ssl.SSLContext | None:
        ca, certificate, key = self._files
        if urlsplit(self.url).scheme != "https":
            return None
        files = f"`ssl.ca.location`, {ca},"
        try:
            context = ssl.create_default_context(cafile=ca)
            if certificate:
                files = f"`ssl.certificate.location`, {' and '.join(filter(None, (certificate, key)))},"
                # Without a password function OpenSSL prompts for the password of an encrypted key on the terminal.
                context.load_cert_chain(certificate, key, password=lambda: "")
        except OSError as error:
            fix = "name PEM files that exist; the key must belong to the certificate and have no password"
            raise ConfigError(f"{files} cannot be used: {error.strerror}", where=self.url, fix=fix) from error
        return context
