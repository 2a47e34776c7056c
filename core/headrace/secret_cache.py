"""Cache of the secrets that services returned."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

#: Seconds for which a value is cached.
CACHE_SECONDS = 300.0

_cache: dict[str, tuple[float, str]] = {}
_lock = threading.Lock()


def fetch_cached(key: str, fetch: Callable[[], str]) -> str:
    """Return the cached value of ``key``, or call ``fetch`` and cache its result for five minutes.

    Several references to one secret then cause one request. After a failed authentication headrace clears the cache.
    """
    with _lock:
        until, value = _cache.get(key, (0.0, ""))
        if time.monotonic() >= until:
            value = fetch()
            _cache[key] = (time.monotonic() + CACHE_SECONDS, value)
        return value


def clear_cache() -> None:
    """Remove all cached values."""
    with _lock:
        _cache.clear()
