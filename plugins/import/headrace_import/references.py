"""References to config providers, and secrets in clear text."""

from __future__ import annotations

import re

#: ``${provider:path:key}`` or ``${provider:key}``, as in Kafka Connect.
_REFERENCE = re.compile(r"\$\{(?P<provider>[^}:]+):(?P<rest>[^}]*)\}")
#: Providers with the same syntax in headrace.
_SAME = ("env", "file", "secretManager", "ssm")
#: Names of options whose values are secrets.
_SECRET_KEY = re.compile(
    r"passw|secret|token|jaas|credential|private|access\.key|user\.info|\.keystore\.key|(^|[._-])api[._-]?key",
    re.IGNORECASE,
)
#: Options whose names look like those of secrets.
_PUBLIC_KEY = re.compile(r"credentials?\.(source|provider)|credentials\.provider\.class|token\.endpoint", re.IGNORECASE)
_URL_PASSWORD = re.compile(r"://[^/@\s]*:[^/@\s]*@")
#: A query parameter or property with a secret inside of a value.
_INNER_SECRET = re.compile(r"(passw(or)?d|secret|token)\s*=", re.IGNORECASE)


def find_clear_secret(key: str, value: str) -> bool:
    """Return whether the value of an option contains a secret that is not a reference."""
    without_references = _REFERENCE.sub("", value).strip()
    if not without_references:
        return False
    if _URL_PASSWORD.search(value) or _INNER_SECRET.search(value):
        return True
    return bool(_SECRET_KEY.search(key)) and not _PUBLIC_KEY.search(key)


def name_variable(key: str) -> str:
    """Return the environment variable for the value of an option."""
    return re.sub(r"[^A-Z0-9]+", "_", key.upper()).strip("_") or "VALUE"


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
