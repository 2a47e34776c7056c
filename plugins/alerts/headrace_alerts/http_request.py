"""Requests to addresses that are secret."""

from __future__ import annotations

import json
import ssl
from collections.abc import Mapping
from http.client import HTTPException
from urllib.error import URLError
from urllib.parse import urlsplit
from urllib.request import Request

from pydantic import SecretStr

from headrace.sdk import ConfigError, HeadraceError, RetriableError
from headrace.sdk.http import RedirectError, ResponseTooLargeError, send

#: Bytes of a response.
_MOST_BYTES = 1 << 20


def request(url: SecretStr, timeout: float, body: object = None, headers: Mapping[str, str] | None = None) -> None:
    """Send JSON with POST, or a GET request without a body. Raises a HeadraceError without the address unless the status is 2xx."""
    data = None if body is None else json.dumps(body, ensure_ascii=False).encode()
    own = {"User-Agent": "headrace", **({} if data is None else {"Content-Type": "application/json"})}
    sent = Request(url.get_secret_value(), data, {**own, **(headers or {})})  # noqa: S310 - checked in the config
    try:
        answer = send(sent, idle_timeout=timeout, timeout=timeout, max_bytes=_MOST_BYTES)
    except (RedirectError, ResponseTooLargeError) as error:
        raise ConfigError(str(error), fix="check `url`") from None
    except (OSError, HTTPException) as error:
        raise _explain(error) from None
    if not 200 <= answer.status < 300:
        raise _explain_status(answer.status)


def find_host(url: SecretStr) -> str:
    """Return the host of an address, which messages may show."""
    return urlsplit(url.get_secret_value()).hostname or ""


def _explain(error: Exception) -> HeadraceError:
    """Return the error without its own text if that may contain the address."""
    reason = error.reason if isinstance(error, URLError) else error
    if isinstance(reason, ssl.SSLError):
        fix = "set the environment variable SSL_CERT_FILE to the certificates of its authority"
        return ConfigError(f"the TLS handshake failed: {reason.reason or type(reason).__name__}", fix=fix)
    what = f"no answer: {reason}" if isinstance(reason, OSError) else f"no valid answer: {type(reason).__name__}"
    return RetriableError(what, fix="check the network and the proxy")


def _explain_status(status: int) -> HeadraceError:
    if status in (401, 403, 404, 410):
        return ConfigError(f"it answers {status}", fix="check the address, the key and their permissions")
    if status == 429 or status >= 500:
        return RetriableError(f"it answers {status}", fix="it is overloaded or broken")
    return ConfigError(f"it answers {status}", fix="check that it is a service of this kind")
