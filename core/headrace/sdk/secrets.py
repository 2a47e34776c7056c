"""Secret providers."""

from __future__ import annotations

from collections.abc import Callable

#: Gives the value, or raises LookupError with a text that says where it looked.
SecretProvider = Callable[[str], str]
