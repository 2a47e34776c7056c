"""Requests of JSON to servers of this machine."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Any

#: Seconds.
_TIMEOUT = 60


def request(method: str, url: str, body: object = None) -> tuple[int, Any]:
    """Status and decoded body; OSError where nobody answers."""
    data = None if body is None else json.dumps(body).encode()
    http_request = urllib.request.Request(url, data, {"Content-Type": "application/json"}, method=method)  # noqa: S310 - ours
    try:
        # A proxy is for other machines.
        with _DIRECT.open(http_request, timeout=_TIMEOUT) as answer:
            return answer.status, _decode(answer.read())
    except urllib.error.HTTPError as error:
        with error:
            return error.code, _decode(error.read())


def _decode(body: bytes) -> Any:
    try:
        return json.loads(body) if body else None
    except ValueError:
        return body.decode("utf-8", "replace")


_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))
