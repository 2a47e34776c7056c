"""JSON requests to servers on this machine."""

from __future__ import annotations

import json
from typing import Any
from urllib.request import Request

from headrace.http_client import send

#: Timeout of a request in seconds, and the maximum size of a response in bytes.
_TIMEOUT, _MOST_BYTES = 60, 100 << 20


def request(method: str, url: str, body: object = None) -> tuple[int, Any]:
    """Send a request; return status and decoded body. OSError if no server listens."""
    data = None if body is None else json.dumps(body).encode()
    http_request = Request(url, data, {"Content-Type": "application/json"}, method=method)  # noqa: S310 - ours
    # No proxy for this machine.
    answer = send(http_request, idle_timeout=_TIMEOUT, timeout=_TIMEOUT, max_bytes=_MOST_BYTES, use_proxies=False)
    return answer.status, _decode(answer.body)


def _decode(body: bytes) -> Any:
    try:
        return json.loads(body) if body else None
    except ValueError:
        return body.decode("utf-8", "replace")
