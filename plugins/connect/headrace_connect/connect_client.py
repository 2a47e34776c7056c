"""Client of Kafka Connect's REST API."""

from __future__ import annotations

import base64
import json
import ssl
import time
from http.client import HTTPException
from typing import Any, TypeVar
from urllib.error import URLError
from urllib.parse import quote
from urllib.request import Request

from pydantic import TypeAdapter, ValidationError

from headrace.sdk import ConfigError, HeadraceError, LoginError, RetriableError
from headrace.sdk.http import RedirectError, Response, ResponseTooLargeError, send

#: Seconds without a byte, seconds for a whole response, and bytes of it. Connect itself gives up after 90 seconds.
_SILENCE, _TIMEOUT, _MOST_BYTES = 95.0, 120.0, 64 << 20
#: Seconds between two attempts of a request that Connect rejects during a rebalance.
_PAUSE = 0.5
#: Seconds for which such a request is repeated.
PATIENCE = 60.0
T = TypeVar("T")
_FIX_ADDRESS = "set `url` in `connect:` to the address of Kafka Connect's REST API"


class NoConnectorError(ConfigError):
    """Kafka Connect has no connector of this name, or no plugin of this class."""


class ConnectClient:
    """Client of the workers at ``url``. ``login`` is ``user:password``; ``ca`` a PEM file.

    A request that is rejected during a rebalance (409) is repeated.
    """

    def __init__(self, url: str, *, login: str | None = None, ca: str | None = None) -> None:
        self.url = url
        self._headers = {"Accept": "application/json", "Content-Type": "application/json"}
        if login:
            self._headers["Authorization"] = "Basic " + base64.b64encode(login.encode()).decode()
        self._ca = ca

    def request(self, method: str, path: str, body: object = None) -> Any:
        """Return the decoded response of a request to ``path``; None without content.

        NoConnectorError for 404, LoginError for 401, ConfigError for other requests that cannot succeed, and RetriableError if
        Connect does not respond or is busy.
        """
        deadline = time.monotonic() + PATIENCE
        while True:
            answer = self._send(method, path, body)
            if answer.status != 409 or time.monotonic() > deadline:
                break
            time.sleep(_PAUSE)
        content = self._decode(answer)
        if answer.status < 300:
            return content
        raise self._explain_status(answer, content)

    def read(self, kind: type[T], method: str, path: str, body: object = None) -> T:
        """Return the response of a request as ``kind``. ConfigError if it has another form, in addition to those of ``request``."""
        content = self.request(method, path, body)
        try:
            return TypeAdapter(kind).validate_python(content)
        except ValidationError as error:
            problem = error.errors(include_url=False, include_input=False)[0]
            part = ".".join(map(str, problem["loc"]))
            reason = "it is not an object" if problem["type"] == "model_type" else problem["msg"]
            what = f"not Kafka Connect: the response of {path} has another form: {f'{part}: ' if part else ''}{reason}"
            raise ConfigError(what, where=self.url, fix=_FIX_ADDRESS) from None

    def _send(self, method: str, path: str, body: object) -> Response:
        data = None if body is None else json.dumps(body).encode()
        request = Request(f"{self.url}{path}", data, self._headers, method=method)  # noqa: S310 - checked in ConnectConfig
        try:
            tls = ssl.create_default_context(cafile=self._ca) if self.url.startswith("https:") else None
        except OSError as error:
            what = f"`ssl.ca.location`, {self._ca}, cannot be used: {error.strerror}"
            raise ConfigError(what, where=self.url, fix="name a PEM file that exists") from error
        try:
            return send(request, idle_timeout=_SILENCE, timeout=_TIMEOUT, max_bytes=_MOST_BYTES, tls=tls)
        except (RedirectError, ResponseTooLargeError) as error:
            raise ConfigError(f"not Kafka Connect: {error}", where=self.url, fix=_FIX_ADDRESS) from error
        except (OSError, HTTPException) as error:
            raise self._explain_connection(error) from error

    def _decode(self, answer: Response) -> Any:
        try:
            return json.loads(answer.body) if answer.body else None
        except (ValueError, RecursionError):
            if answer.status < 300:
                what = "not Kafka Connect: the response is not JSON"
                raise ConfigError(what, where=self.url, fix=_FIX_ADDRESS) from None
            return None

    def _explain_connection(self, error: Exception) -> HeadraceError:
        reason = error.reason if isinstance(error, URLError) else error
        if isinstance(reason, ssl.SSLError):
            fix = "set `ssl.ca.location` to the certificate that signed Connect's certificate; use `http://` if it has no TLS"
            return ConfigError(f"TLS handshake failed: {reason}", where=self.url, fix=fix)
        fix = "check that a worker of Kafka Connect runs, and that `url` in `connect:` is its address"
        return RetriableError(f"Kafka Connect did not respond: {reason}", where=self.url, fix=fix)

    def _explain_status(self, answer: Response, content: Any) -> HeadraceError:
        is_connect = isinstance(content, dict) and "message" in content
        text = str(content["message"]) if is_connect else f"{answer.status} {answer.reason}"
        kind: type[HeadraceError] = ConfigError
        what, fix = f"Kafka Connect rejected the request: {text}", "correct `connect:`"
        if answer.status == 401:
            kind, what = LoginError, f"Kafka Connect rejected the login: {text}"
            fix = "set `basic.auth.user.info: ${env:NAME}` in `connect:` to USER:PASSWORD of Kafka Connect"
        elif answer.status == 403:
            what, fix = f"permission denied: {text}", "allow this user to manage connectors"
        elif answer.status == 404 and is_connect:
            kind, what = NoConnectorError, text
        elif answer.status == 409:
            kind, what = RetriableError, f"Kafka Connect is busy: {text}"
            fix = "retry later; the log of the workers shows why they still rebalance"
        elif answer.status >= 500:
            kind, what, fix = RetriableError, f"Kafka Connect failed: {text}", "see the log of the worker"
        elif not is_connect:
            what, fix = f"not Kafka Connect: it returned {text}", _FIX_ADDRESS
        return kind(what, where=self.url, fix=fix)


def connector_path(name: str, *parts: str) -> str:
    """Return the path of a connector."""
    return "/".join(["/connectors", quote(name, safe=""), *parts])
