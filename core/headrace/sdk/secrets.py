"""Secret providers, a cache of what their services returned, and secrets in texts."""

from __future__ import annotations

from collections.abc import Callable

from headrace.secret_cache import fetch_cached
from headrace.secret_values import find_named_secrets, hide_credentials, hide_named_secrets

__all__ = ["SecretProvider", "fetch_cached", "find_named_secrets", "hide_credentials", "hide_named_secrets"]

#: Returns the value of a secret, or raises LookupError with a message that states where it searched.
SecretProvider = Callable[[str], str]
