"""References to config providers, and secrets in clear text."""

from __future__ import annotations

import re

from headrace.sdk.options import has_secret_name
from headrace.sdk.secrets import find_named_secrets, hide_credentials

#: ``${provider:path:key}`` or ``${provider:key}``, as in Kafka Connect.
_REFERENCE = re.compile(r"\$\{(?P<provider>[^}:]+):(?P<rest>[^}]*)\}")
#: Providers with the same syntax in headrace.
_SAME = ("env", "file", "secretManager", "ssm")
#: The name that a user gave to a transform or predicate.
_ALIAS = re.compile(r"^(transforms|predicates)\.[^.]+\.")
#: A key of AES-256 for objects. With KMS, the option is the id of a key.
_OBJECT_KEY, _AES_KEY = re.compile(r"\bsse\.key$"), re.compile(r"\s*[A-Za-z0-9+/]{43}=\s*")
_LOGIN = re.compile(r"\s*(Basic|Bearer)\s+\S", re.IGNORECASE)
#: The salt of a mask of Debezium is a part of the option's name.
_SALT = re.compile(r"(\.with\.salt\.).+")


def find_clear_secret(key: str, value: str) -> bool:
    """Return whether the value of an option contains a secret that is not a reference."""
    name, text = _ALIAS.sub("", key), _REFERENCE.sub("", value)
    if not text.strip():
        return False
    if (
        _LOGIN.match(text)
        or find_named_secrets(text)
        or hide_credentials(text) != text
        or (_OBJECT_KEY.search(name) and _AES_KEY.fullmatch(text))
    ):
        return True
    if "jaas" in name.lower() and text != value:  # a login module with references
        return False
    return has_secret_name(name, is_foreign=True)


def hide_salt(key: str) -> str:
    """Return the name of an option without the salt that it contains."""
    return _SALT.sub(r"\1******", key)


def translate_references(value: str) -> tuple[str, list[str]]:
    """Return a value with headrace's references, and the config providers that headrace does not have."""
    foreign: list[str] = []
    parts: list[str] = []
    end = 0
    for match in _REFERENCE.finditer(value):
        parts += [_escape(value[end : match.start()]), _translate(match, foreign)]
        end = match.end()
    return "".join([*parts, _escape(value[end:])]), foreign


def _translate(match: re.Match[str], foreign: list[str]) -> str:
    provider, rest = match["provider"], match["rest"]
    if provider == "dir":  # DirectoryConfigProvider: a file of the folder
        return f"${{file:{rest.replace(':', '/', 1)}}}"
    if provider not in _SAME:
        foreign.append(provider)
    return f"${{{provider}:{rest.removeprefix(':')}}}"


def _escape(text: str) -> str:
    return text.replace("${", "$${")
