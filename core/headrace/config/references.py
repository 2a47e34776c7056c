"""References in values: ``${env:SALT}``, ``${file:/run/secrets/salt}``, ``${file:/etc/db.properties:password}``.

Plugins add other secret providers. ``$${`` is an escaped ``${``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from headrace.config.properties import parse_properties
from headrace.config.redaction import Redaction
from headrace.errors import ConfigError, HeadraceError, RetriableError
from headrace.sdk.auth import escape_jaas
from headrace.sdk.secrets import SecretProvider
from headrace.secret_values import Secret
from headrace.suggestions import did_you_mean

_REFERENCE_START = re.compile(r"\$(?P<escaped>\$\{)|\$\{(?P<provider>[A-Za-z][\w-]*):")

#: End of the keys whose values are JAAS configurations: the value of a reference inside quotes is escaped.
_JAAS = "sasl.jaas.config"
#: A quoted string of a JAAS configuration, or the start of one.
_JAAS_QUOTED = re.compile(r"""(["'])(?:\\.|(?!\1)[^\\])*(\1|$)""", re.DOTALL)

#: Path of a value in the file → its location for users.
Where = Callable[[tuple[Any, ...]], str]


def from_env(name: str) -> str:
    """Return the value of ``${env:NAME}``, an environment variable."""
    try:
        return os.environ[name]
    except KeyError:
        raise LookupError(f"the environment has no variable {name!r}") from None


def from_file(name: str) -> str:
    """Return ``${file:PATH}``: a file's text without its final line break; ``${file:PATH:KEY}``: a value of its properties."""
    path, colon, key = name.rpartition(":")
    if not colon or Path(name).expanduser().is_file():
        return _read_text(name).removesuffix("\n")
    properties = parse_properties(_read_text(path))
    if key not in properties:
        raise LookupError(f"the file {path!r} has no key {key!r}; {did_you_mean(key, properties)}")
    return properties[key]


def _read_text(name: str) -> str:
    try:
        return Path(name).expanduser().read_text(encoding="utf-8")
    except (OSError, ValueError, RuntimeError) as error:
        raise LookupError(f"the file {name!r} cannot be read: {getattr(error, 'strerror', None) or error}") from None


#: Built-in providers; plugins add more.
PROVIDERS: Mapping[str, SecretProvider] = {"env": from_env, "file": from_file}


class _Problem(NamedTuple):
    """Reason why a reference has no value."""

    text: str
    #: The provider is busy or unreachable, and can return the value later.
    is_temporary: bool = False


class Missing:
    """References without a value, by their location in the file. ``places``: these locations for users."""

    def __init__(self, problems: Mapping[tuple[Any, ...], Sequence[_Problem]], where: Where) -> None:
        self._problems = problems
        self.places = {where(loc) for loc in problems}

    @property
    def error(self) -> HeadraceError:
        """One error for all references."""
        problems = [problem for found in self._problems.values() for problem in found]
        count = "1 reference" if len(problems) == 1 else f"{len(problems)} references"
        message = "\n  ".join([f"{count} cannot be resolved:", *(problem.text for problem in problems)])
        if all(problem.is_temporary for problem in problems):
            return RetriableError(message, fix="retry later")
        return ConfigError(message, fix="give each reference a value")

    def affects(self, loc: tuple[Any, ...]) -> bool:
        """Return whether a reference is at this location or below it."""
        return any(found[: len(loc)] == loc for found in self._problems)


@dataclass
class Resolver:
    """Replacement of references by the values of their providers, as secrets; ``redact`` removes these from texts."""

    providers: Mapping[str, SecretProvider]
    redact: Redaction = field(default_factory=Redaction)
    #: Resolved references, as they are written.
    references: set[str] = field(default_factory=set)

    def resolve(self, data: Any, where: Where) -> Any:
        """Replace all references in ``data``; raise one error that names all missing values.

        RetriableError if each missing value can be available later, otherwise ConfigError.
        """
        resolved, missing = self.resolve_known(data, where)
        if missing:
            raise missing.error
        return resolved

    def resolve_known(self, data: Any, where: Where) -> tuple[Any, Missing | None]:
        """Replace the references in ``data`` that have a value, and return the others as well."""
        missing: dict[tuple[Any, ...], list[_Problem]] = {}
        resolved = self._walk(data, (), where, missing)
        return resolved, Missing(missing, where) if missing else None

    def _walk(
        self, data: Any, loc: tuple[Any, ...], where: Where, missing: dict[tuple[Any, ...], list[_Problem]]
    ) -> Any:
        if isinstance(data, dict):
            return {key: self._walk(value, (*loc, key), where, missing) for key, value in data.items()}
        if isinstance(data, list | tuple):
            return [self._walk(value, (*loc, i), where, missing) for i, value in enumerate(data)]
        if not isinstance(data, str):
            return data
        problems: list[_Problem] = []
        text = self._expand(data, problems, is_jaas=bool(loc) and str(loc[-1]).endswith(_JAAS))
        if problems:
            missing[loc] = [problem._replace(text=f"{where(loc)}: {problem.text}") for problem in problems]
        has_reference = any(not start["escaped"] for start in _REFERENCE_START.finditer(data))
        return Secret(text, written=data) if has_reference else text

    def _expand(self, text: str, problems: list[_Problem], *, is_jaas: bool = False) -> str:
        """Replace the references in ``text``. A reference's name may contain references; a resolved value may not."""
        result, rest = "", text
        while (start := _REFERENCE_START.search(rest)) is not None:
            result += rest[: start.start()]
            if start["escaped"]:
                result, rest = result + start["escaped"], rest[start.end() :]
                continue
            end = _find_closing_brace(rest, start.end())
            if end is None:
                problems.append(_Problem(f"{rest[start.start() :]}: it has no closing brace"))
                return ""
            value = self._resolve_one(start["provider"], rest[start.end() : end], problems)
            quote = _find_open_quote(result) if is_jaas else ""
            result += escape_jaas(value, quote) if quote else value
            rest = rest[end + 1 :]
        return result + rest

    def _resolve_one(self, provider: str, written: str, problems: list[_Problem]) -> str:
        """Return the value of ``${provider:written}``; an empty string, and one more problem, when it has none."""
        before = len(problems)
        name = self._expand(written, problems)
        if len(problems) > before:
            return ""
        if provider not in self.providers:
            hint = did_you_mean(provider, self.providers)
            problems.append(_Problem(f"${{{provider}:{written}}}: no secret provider {provider!r}; {hint}"))
            return ""
        try:
            value: object = self.providers[provider](name)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001 - a provider may raise any error; all problems are reported together
            text = f"${{{provider}:{written}}}: {_describe_error(error)}"
            problems.append(_Problem(text, isinstance(error, RetriableError)))
            return ""
        if not isinstance(value, str):
            kind = type(value).__name__
            problems.append(_Problem(f"${{{provider}:{written}}}: the provider did not return a string, but {kind}"))
            return ""
        self.redact.add(value)
        self.references.add(f"${{{provider}:{written}}}")
        return value


def _describe_error(error: BaseException) -> str:
    """Return why a provider has no value, in one line. Other error messages may contain the value."""
    if isinstance(error, HeadraceError):
        return f"{error.what}; {error.fix}" if error.fix else error.what
    if isinstance(error, LookupError):
        return str(error.args[0]) if error.args else "not found"
    return f"the provider raised {type(error).__name__}; its message is hidden, because it may contain the value"


def _find_open_quote(text: str) -> str:
    """Return the quote character that a JAAS configuration opens and does not close; an empty string when there is none."""
    return next((quoted[1] for quoted in _JAAS_QUOTED.finditer(text) if not quoted[2]), "")


def _find_closing_brace(text: str, start: int) -> int | None:
    """Return the index of the brace that closes the one opened before ``start``; None when there is none."""
    depth = 1
    for i, character in enumerate(text[start:], start):
        depth += {"{": 1, "}": -1}.get(character, 0)
        if depth == 0:
            return i
    return None
