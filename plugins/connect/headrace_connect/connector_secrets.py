"""Secrets in configurations of connectors and in texts of workers, and their replacement by asterisks."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote, quote_plus

from headrace.sdk.http import hide_credentials
from headrace.sdk.options import escape_controls, has_secret_name

HIDDEN = "******"
#: Minimum length of a secret that is replaced anywhere. A shorter one is replaced as a whole word: texts stay readable.
_LONG = 4
_REFERENCE = re.compile(r"\$\{[^{}]+\}")
#: Debezium's masks have their salt in the name of the option; the value is a list of columns.
_SALT_IN_NAME = re.compile(r"(column\.mask\.hash\..+?\.with\.salt\.)(.+)", re.IGNORECASE)
#: A secret within a longer text: `password=…` of a URL, a property or a JAAS login, and a statement that sets a password.
_PART = re.compile(
    r"""((?:password|passwd|pwd|passphrase|secret|token|api[._-]?key|private[._-]?key|salt)(?:\s*=\s*|["']\s*:\s*(?=["']))"""
    r"""|identified\s+by\s+(?:password\s+)?(?=["']))("[^"]+"|'[^']+'|(?!\$\{|\*{6})[^\s;&,"'<>)]+)""",
    re.IGNORECASE,
)
_URL_LOGIN = re.compile(r"://[^/\s:@]*:([^/\s@]+)@")


class ConnectorSecrets:
    """Secrets of the configuration of a connector.

    ``passwords``: options that the connector declares as passwords, which its validation reports.
    """

    def __init__(self, *configurations: Mapping[str, str | None]) -> None:
        self.passwords: set[str] = set()
        self._configurations = list(configurations)

    def add(self, configuration: Mapping[str, str]) -> None:
        """Add a configuration, such as the deployed one, whose secrets texts of the worker may contain."""
        self._configurations.append(configuration)

    def find_plain(self) -> dict[str, list[str]]:
        """Return the options of the first configuration that contain secrets, and no reference in their place."""
        options = self._configurations[0]
        found = {self.show_key(key): list(self._find(key, text)) for key, text in options.items() if text}
        return {key: secrets for key, secrets in found.items() if secrets}

    def show_key(self, key: str) -> str:
        """Return the name of an option for display."""
        return escape_controls(_SALT_IN_NAME.sub(rf"\1{HIDDEN}", key))

    def show_value(self, key: str, value: str) -> str:
        """Return the value of an option for display on one line: references as they are written, and no other secrets."""
        if self._is_secret(key):
            return escape_controls(value) if _REFERENCE.fullmatch(value) else HIDDEN
        return escape_controls(_hide_parts(value))

    def hide(self, text: str) -> str:
        """Return a text without the secrets of the configurations, and without other passwords that it names."""
        for secret in sorted(filter(str.strip, self._list_all()), key=len, reverse=True):
            for spelling in dict.fromkeys(
                (secret, json.dumps(secret)[1:-1], quote(secret, safe=""), quote_plus(secret))
            ):
                pattern = re.escape(spelling) if len(secret) >= _LONG else rf"(?<!\w){re.escape(spelling)}(?!\w)"
                text = re.sub(pattern, HIDDEN, text)
        return _hide_parts(text)

    def hide_all(self, value: Any) -> Any:
        """Return a value of JSON with its texts hidden. A secret of headrace is a string of another class."""
        if isinstance(value, Mapping):
            return {key: self.hide_all(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.hide_all(item) for item in value]
        return value if not isinstance(value, str) else self.hide(value) if type(value) is str else HIDDEN

    def _list_all(self) -> set[str]:
        return {
            secret
            for options in self._configurations
            for key, text in options.items()
            for secret in (
                *self._find(key, text or ""),
                *(match[2] for match in [_SALT_IN_NAME.fullmatch(key)] if match),
            )
        }

    def _find(self, key: str, text: str) -> Iterator[str]:
        parts = [match[2].strip("\"'") for match in _PART.finditer(text)]
        parts += [match[1] for match in _URL_LOGIN.finditer(text)]
        found = [part for part in parts if not _REFERENCE.search(part)]
        is_whole = self._is_secret(key) and not _REFERENCE.search(text)
        if is_whole or (not found and _hide_parts(text) != text):
            yield text
        yield from found

    def _is_secret(self, key: str) -> bool:
        is_named = has_secret_name(key, is_foreign=True) and not _SALT_IN_NAME.fullmatch(key)
        return key in self.passwords or is_named


def _hide_parts(text: str) -> str:
    def replace(match: re.Match[str]) -> str:
        return match[0] if _REFERENCE.search(match[2]) else match[1] + HIDDEN

    # A reference in the place of a URL's password stays: the worker resolves it.
    parts = re.split(r"(\$\{[^{}]+\})", _PART.sub(replace, text))
    return "".join(part if _REFERENCE.fullmatch(part) else hide_credentials(part) for part in parts)
