"""Secret values: their type, the keys that hold them, and models that preserve them."""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Self

from pydantic import BaseModel, ModelWrapValidatorHandler, SecretStr, model_validator

#: Replacement of a secret in output.
HIDDEN = "******"
#: Case-insensitive regular expression of keys that hold secrets: Spark's own, extended.
SECRET_KEYS = (
    r"secret|password|token(?![.]endpoint)|access[.]?key|credential\b(?![.]provider)|passphrase|account[.]key|private[.]?key"  # noqa: S105
    r"|user[.]info|jaas"
)
_SECRET_KEYS = re.compile(SECRET_KEYS, re.IGNORECASE)
#: Names of secrets in configurations of other tools, in addition.
_FOREIGN_KEYS = re.compile(
    r"passw|(^|[._-])pwd($|[._-])|([._-]|(?-i:[a-z](?=P)))pass$|(^|[._-])(?<!with[.])salt($|[._-])|cookie|authorization|hmac"
    r"|private[._-]?(key|pem)|(^|[.])private$|(^|[._-])sig$|shared[._-]?access[._-]?signature"
    r"|credential(?!s?[.](source|provider|profile$|class|path|file))|(access|account|shared|encryption|sas|api)[._-]?key|[._-]sas[._-]"
    r"|connection[._-]string|keystore[.]key|catalog[.](properties[.])?header[.](?!x-\w+-access-delegation)|custom[.]headers$",
    re.IGNORECASE,
)


#: Logins in quoted requests: the value of an Authorization header, a Basic or Bearer login, and the password of a URL.
_HEADER = re.compile(
    r"""(authorization["']?\s*[:=]\s*["']?)(?:((?:Basic|Bearer|Digest|Negotiate|NTLM|Token)\s+)[^\s"'<>]+|(?=[^\s"'<>]*\d)[^\s"'<>]{8,})""",
    re.IGNORECASE,
)
_BASIC = re.compile(r"\b(Basic\s+)([A-Za-z0-9+/_-]{4,}={0,2})", re.IGNORECASE)
_BEARER = re.compile(r"\b(Bearer\s+)(?=[\w.~+/-]*\d)[\w.~+/-]{16,}=*", re.IGNORECASE)
#: The password may contain `/` and `@`, which should be escaped. Digits before a slash are a port.
_URL_PASSWORD = re.compile(r"""(?<=://)([^/\s:@]*:)(?!\d{1,5}/)[^\s"'<>]+(?=@)""")
#: A login of one part, such as an access token.
_URL_TOKEN = re.compile(r"""(?:(?<=https://)|(?<=http://))[^/\s:@"'<>]{20,}(?=@)""")
#: Headers with a key, parts of connection strings, and logins `user/password@` of addresses with a driver.
_NAMED = re.compile(
    r"""((?<![\w-])x-[\w-]*(?:key|token|secret)["']?\s*[:=]\s*["']?|(?:Account|SharedAccess)(?:Key|Signature)\s*=\s*)[^\s;,"'<>]+""",
    re.IGNORECASE,
)
_DRIVER_LOGIN = re.compile(
    r"""(\b(?:[a-z][a-z0-9]*:){3}[^\s/@:"'<>]+/)(?:"[^"]*"|[^\s"'<>@]{1,1000})(?=@(?://|[(\w]))""", re.IGNORECASE
)
#: Name within a text, before its value: `name=`, `name = `, `"name": ` or `name: `. A hidden value is no secret.
_NAME = re.compile(
    r"""(?<![\w.-])([\w.-]++)(?=((?:\s*=|\\?["']\s*[:=]|:(?=[ \t]))[ \t]*)"""
    r"""\\?["']?(?!(?:true|false|null)\b|\*{6})[^\s"'\\,;&)}\]])""",
    re.IGNORECASE,
)
#: Password in a statement of SQL: `IDENTIFIED BY '…'` or `PASSWORD '…'`.
_STATEMENT = re.compile(r"""\b(?:identified\s+by|password)\s+(?=["'](?!\*{6}))""", re.IGNORECASE)
#: Value in quotes or without them. A quote within a value follows a backslash, or is double.
_VALUE = re.compile(
    r""""((?:[^"\\]|\\.|"")++)"|'((?:[^'\\]|\\.|'')++)'|\\"((?:[^\\]|\\(?!"))++)\\"|\\?["']?((?:[^\s"',;&<>)}\]\\]|\\(?!["']))+)""",
    re.DOTALL,
)
_PRIVATE_KEY = re.compile(r"(-----BEGIN [A-Z ]*PRIVATE KEY-----).*?(?=-----END|\Z)", re.DOTALL)


class Secret(str):
    """Secret string. Its ``repr`` is the reference as it was written, ``${env:NAME}``."""

    __slots__ = ("written",)
    written: str

    def __new__(cls, text: str, written: str = HIDDEN) -> Self:
        secret = super().__new__(cls, text)
        secret.written = written
        return secret

    def __repr__(self) -> str:
        return repr(self.written)

    def __getnewargs__(self) -> tuple[str, str]:  # type: ignore[override]  # str takes one argument
        return str(self), self.written


def propagate_secret(text: str, *parts: Any) -> str:
    """Return ``text``, as a secret when one of its parts contains one."""
    secrets = [secret for _, secret in find_secrets({"": parts})]
    return secrets[0] if text in secrets else Secret(text) if secrets else text


def hide_credentials(text: str) -> str:
    """Return the text without credentials that their form shows: headers with logins and keys, passwords of addresses, private keys."""
    for pattern in (_NAMED, _DRIVER_LOGIN, _PRIVATE_KEY):
        text = pattern.sub(rf"\1{HIDDEN}", text)
    text = _HEADER.sub(lambda match: f"{match[1]}{match[2] or ''}{HIDDEN}", text)
    text = _BASIC.sub(lambda match: match[1] + HIDDEN if _is_login(match[2]) else match[0], text)
    text = _BEARER.sub(rf"\1{HIDDEN}", text)
    return _URL_TOKEN.sub(HIDDEN, _URL_PASSWORD.sub(rf"\1{HIDDEN}", text))


def _is_login(text: str) -> bool:
    """Return whether a string is the base64 of ``user:password``, or its start."""
    text = text.rstrip("=").translate(str.maketrans("-_", "+/"))
    whole = text[: len(text) - len(text) % 4]
    return b":" in b64decode(whole)


def has_secret_name(key: str, *, is_foreign: bool = False) -> bool:
    """Return whether a key's name indicates a secret value. ``is_foreign``: it is an option of another tool, whose names vary more."""
    return bool(_SECRET_KEYS.search(key) or (is_foreign and _FOREIGN_KEYS.search(key)))


def find_named_secrets(text: str) -> list[str]:
    """Return the values whose names in a text indicate a secret, as in ``user=app&apiToken=…``."""
    return [text[slice(*span)] for span in _find_named_spans(text)]


def hide_named_secrets(text: str) -> str:
    """Return the text without the values whose names indicate a secret."""
    parts, end = [], 0
    for start, stop in _find_named_spans(text):
        parts += [text[end:start], HIDDEN]
        end = stop
    return "".join([*parts, text[end:]])


def _find_named_spans(text: str) -> Iterator[tuple[int, int]]:
    """Yield the start and the end of each value with the name of a secret, in order."""
    names = [(match[1], match.end(2)) for match in _NAME.finditer(text) if has_secret_name(match[1], is_foreign=True)]
    names += [("", match.end()) for match in _STATEMENT.finditer(text)]
    end = 0
    for name, start in sorted(names, key=lambda found: found[1]):
        match = _VALUE.match(text, start) if start >= end else None
        # `a.token = b.token` compares columns.
        if match and match[match.lastindex or 0].partition(".")[2] != (name.rpartition(".")[2] or None):
            yield match.span(match.lastindex or 0)
            end = match.end()


def show_value(key: str, value: str) -> str:
    """Return a setting's value for display: a secret as it was written, and ``HIDDEN`` for a key that names a secret."""
    if isinstance(value, Secret):
        return value.written
    return HIDDEN if has_secret_name(key) else value


def wrap_secrets(value: Any, key: str = "") -> Any:
    """Return ``value`` with secrets in place of the strings whose keys indicate secrets."""
    if isinstance(value, Mapping):
        return {name: wrap_secrets(item, str(name)) for name, item in value.items()}
    if isinstance(value, list | tuple):
        items = [wrap_secrets(item, key) for item in value]
        return tuple(items) if isinstance(value, tuple) else items
    is_plain = isinstance(value, str) and not isinstance(value, Secret)
    return Secret(value) if is_plain and has_secret_name(key) else value


def restore_secrets(value: Any, given: Any) -> Any:
    """Return ``value`` with the secrets of its input: models convert them to plain strings."""
    if isinstance(given, Secret):
        if isinstance(value, list | tuple) and len(value) == 1:  # an option that takes one value or a list
            items = [restore_secrets(value[0], given)]
            return tuple(items) if isinstance(value, tuple) else items
        return Secret(value, given.written) if type(value) is str else value
    if isinstance(given, Mapping) and isinstance(value, dict):
        kept = {name: restore_secrets(item, given.get(name)) for name, item in value.items()}
        return kept if any(kept[name] is not item for name, item in value.items()) else value
    if isinstance(given, list | tuple) and isinstance(value, list | tuple) and len(given) == len(value):
        items = [restore_secrets(item, one) for item, one in zip(value, given, strict=True)]
        return type(value)(items) if any(a is not b for a, b in zip(items, value, strict=True)) else value
    return value


def find_secrets(values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the secrets, at any depth, with their keys."""
    for key, value in values.items():
        if isinstance(value, Secret):
            yield key, value
        elif isinstance(value, SecretStr):
            yield key, Secret(value.get_secret_value())
        elif isinstance(value, list | tuple):
            for item in value:
                yield from find_secrets({key: item})
        elif isinstance(value, BaseModel):
            yield from find_secrets(values_by_key(value))
        elif isinstance(value, Mapping):
            yield from find_secrets(value)


def values_by_key(model: BaseModel) -> dict[str, Any]:
    """Return a model's values by the keys of the pipeline file."""
    fields = type(model).model_fields
    return {(fields[name].alias or name) if name in fields else name: value for name, value in model}


class SecretsModel(BaseModel):
    """Model whose ``repr`` shows no secrets, and whose values stay secrets."""

    @model_validator(mode="wrap")
    @classmethod
    def _keep_secrets(cls, data: Any, make: ModelWrapValidatorHandler[Self]) -> Self:
        made = make(data)
        if isinstance(data, Mapping):
            for name, field in cls.model_fields.items():
                given = data.get(field.alias or name, data.get(name))
                made.__dict__[name] = restore_secrets(made.__dict__[name], given)
        return made

    def __repr_args__(self) -> Iterable[tuple[str | None, Any]]:
        return [(name, wrap_secrets(value, name or "")) for name, value in super().__repr_args__()]

    def secrets(self) -> list[tuple[str, str]]:
        """Return the secrets of the block, at any depth, with their keys."""
        return list(find_secrets(values_by_key(self)))
