"""Secrets in configurations of connectors and in texts of workers, and their replacement by asterisks."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote, quote_plus

from headrace.sdk.options import escape_controls, has_secret_name
from headrace.sdk.secrets import find_named_secrets, hide_credentials, hide_named_secrets

HIDDEN = "******"
#: Minimum length of a secret that is replaced anywhere. A shorter one is replaced as a whole word: texts stay readable.
_LONG = 4
_REFERENCE = re.compile(r"(\$\{[^{}]+\})")
#: Debezium's masks have their salt in the name of the option; the value is a list of columns.
_SALT_IN_NAME = re.compile(r"(column\.mask\.hash\..+?\.with\.salt\.)(.+)", re.IGNORECASE)
#: Start of a message behind the name of an option: words of letters, as in `database.password: A value is required`.
_SENTENCE = re.compile(r"(?<=: )(?=[A-Z]?[a-z]* [a-z]+\b(?!\s*[=:]))")
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
        return _hide_parts(text, _SENTENCE)

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
        found = [secret for part in _REFERENCE.split(text)[::2] for secret in find_named_secrets(part)]
        found += [match[1] for match in _URL_LOGIN.finditer(text) if not _REFERENCE.search(match[1])]
        is_whole = self._is_secret(key) and not _REFERENCE.search(text)
        if is_whole or (not found and _hide_parts(text) != text):
            yield text
        yield from found

    def _is_secret(self, key: str) -> bool:
        is_named = has_secret_name(key, is_foreign=True) and not _SALT_IN_NAME.fullmatch(key)
        return key in self.passwords or is_named


def _hide_parts(text: str, break_at: re.Pattern[str] | None = None) -> str:
    """Return a text without secrets that it names. ``break_at``: a name before it does not name the text behind it."""

    def hide(part: str) -> str:
        pieces = break_at.split(part) if break_at else [part]
        return hide_credentials("".join(map(hide_named_secrets, pieces)))

    # A reference in the place of a password stays: the worker resolves it.
    parts = _REFERENCE.split(text)
    return "".join(part if n % 2 else hide(part) for n, part in enumerate(parts))
