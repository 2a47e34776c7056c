"""Pipeline file without secrets, also if it is invalid."""

from __future__ import annotations

import re
from collections.abc import Iterator, Set as AbstractSet
from typing import Any

import yaml

from headrace.config.command_blocks import list_block_commands
from headrace.config.option_docs import list_inner_models
from headrace.config.redaction import Redaction
from headrace.config.references import PROVIDERS, Resolver
from headrace.config.yaml_document import load
from headrace.registry.plugin_registry import registry
from headrace.registry.validation import BASES
from headrace.sdk.config import Config
from headrace.secret_values import HIDDEN, has_secret_name, hide_credentials, hide_named_secrets

#: References, and nothing else: they are not secrets.
_REFERENCES = re.compile(r"(\$\{[A-Za-z][\w-]*:[^{}]*\})+")
#: Names of options that end with a secret.
_SALTED = re.compile(r"((?:^|\.)salt\.).+", re.IGNORECASE)


class RedactedFile:
    """Pipeline file, as it may be shown, and its secrets. ConfigError if it is no YAML."""

    def __init__(self, file: str) -> None:
        document = load(file)
        self._blocks, self._found = _find_secret_keys(), list[str]()
        self._data, self._texts = self._hide(document.data, frozenset()), set(_list_texts(document.data))
        self._redaction = Redaction()
        Resolver(PROVIDERS, self._redaction).resolve_known(document.data, document.where)
        for secret in self._found:
            self._redaction.add(secret)

    def write(self) -> str:
        """Return the file as YAML with its references, without comments and secrets."""
        return yaml.safe_dump(self._data, sort_keys=False, allow_unicode=True, width=120)

    def redact(self, text: str) -> str:
        """Return a text without the secrets of the file, and of those that its references read from this machine."""
        return self._redaction(text)

    @property
    def names(self) -> set[str]:
        """Texts of the file: names of topics, tables, columns and options, which are no values of rows."""
        return self._texts

    def _hide(self, value: Any, secret_keys: AbstractSet[str], *, is_secret: bool = False) -> Any:
        """Return a value for display, and remember its secrets. ``secret_keys``: those of the blocks around it."""
        if isinstance(value, dict):
            return {
                self._hide_key(key): self._hide_item(key, item, secret_keys, is_secret) for key, item in value.items()
            }
        if isinstance(value, list):
            return [self._hide(item, secret_keys, is_secret=is_secret) for item in value]
        if value is None or isinstance(value, bool) or _REFERENCES.fullmatch(str(value)):
            return value
        if is_secret:
            self._found.append(str(value))
            return HIDDEN
        return value if type(value) is int else hide_credentials(hide_named_secrets(str(value)))

    def _hide_item(self, key: str, item: Any, secret_keys: AbstractSet[str], is_secret: bool) -> Any:  # noqa: FBT001
        is_hidden = is_secret or key in secret_keys or has_secret_name(key, is_foreign=True)
        return self._hide(item, secret_keys | self._blocks.get(key, set()), is_secret=is_hidden)

    def _hide_key(self, key: str) -> str:
        if salted := _SALTED.search(key):
            self._found.append(key[salted.end(1) :])
        return _SALTED.sub(rf"\1{HIDDEN}", key)


def _find_secret_keys() -> dict[str, set[str]]:
    """Return the keys of all installed plugins and commands whose values the models declare as secrets."""
    plugins = registry()
    models = [(name, plugin.Config) for kind in BASES for name, plugin in plugins.all(kind)]
    models += [(name, command.model) for name, command in list_block_commands().items()]
    found: dict[str, set[str]] = {}
    for name, model in models:
        found.setdefault(name, set()).update(_list_secret_keys(model))
    return found


def _list_secret_keys(model: type[Config]) -> Iterator[str]:
    for inner in (model, *list_inner_models(model)):
        for name, field in inner.model_fields.items():
            if "SecretStr" in repr(field.annotation):
                yield field.alias or name


def _list_texts(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        yield from value
        for item in value.values():
            yield from _list_texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from _list_texts(item)
    elif isinstance(value, str):
        yield value
