"""References to config providers, and secrets in clear text."""

from __future__ import annotations

import re
from collections.abc import Mapping

from headrace.sdk.options import has_secret_name
from headrace.sdk.secrets import find_named_secrets, hide_credentials

#: ``${provider:path:key}`` or ``${provider:key}``, as in Kafka Connect.
_REFERENCE = re.compile(r"\$\{(?P<provider>[^}:]+):(?P<rest>[^}]*)\}")
#: Class of a config provider → the provider of headrace with the same syntax; DirectoryConfigProvider names a file of a folder.
_CLASSES = {
    "DirectoryConfigProvider": "dir",
    "EnvVarConfigProvider": "env",
    "FileConfigProvider": "file",
    "SecretsManagerConfigProvider": "secretManager",
    "SsmParamStoreConfigProvider": "ssm",
}
#: Usual names of these providers.
_NAMES = {"directory": "dir", **{provider: provider for provider in _CLASSES.values()}}
_PROVIDER_CLASS = re.compile(r"config\.providers\.([^.]+)\.class")
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


def read_providers(worker: Mapping[str, str]) -> dict[str, str]:
    """Return name → provider of headrace for the config providers of a worker that headrace has under another name."""
    named = [(_PROVIDER_CLASS.fullmatch(key), value.rpartition(".")[2]) for key, value in worker.items()]
    return {match[1]: _CLASSES[name] for match, name in named if match and name in _CLASSES}


def translate_references(value: str, providers: Mapping[str, str]) -> tuple[str, list[str]]:
    """Return a value with headrace's references, and the config providers that headrace does not have.

    ``providers``: name → provider of headrace, of the worker.
    """
    foreign: list[str] = []
    parts: list[str] = []
    end = 0
    for match in _REFERENCE.finditer(value):
        provider = {**_NAMES, **providers}.get(match["provider"])
        foreign += [] if provider else [match["provider"]]
        reference = _write_reference(provider or match["provider"], match["rest"])
        parts += [_escape(value[end : match.start()]), reference]
        end = match.end()
    return "".join([*parts, _escape(value[end:])]), foreign


def _write_reference(provider: str, rest: str) -> str:
    return (
        f"${{file:{rest.replace(':', '/', 1)}}}" if provider == "dir" else f"${{{provider}:{rest.removeprefix(':')}}}"
    )


def _escape(text: str) -> str:
    return text.replace("${", "$${")
