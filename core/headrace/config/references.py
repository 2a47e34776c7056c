"""References in values: ``${env:SALT}``, ``${file:/run/secrets/salt}``, and those that plugins bring."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headrace.config.suggest import did_you_mean
from headrace.errors import ConfigError, HeadraceError

_REFERENCE = re.compile(r"\$\{(?P<provider>[A-Za-z][\w-]*):(?P<name>[^${}]*)\}")

#: Gives the value, or raises LookupError with a text that says where it looked.
SecretProvider = Callable[[str], str]


def from_env(name: str) -> str:
    """``${env:NAME}``: an environment variable."""
    try:
        return os.environ[name]
    except KeyError:
        raise LookupError(f"the environment has no variable {name!r}") from None


def from_file(name: str) -> str:
    """``${file:PATH}``: the text of a file, without the line break at its end."""
    try:
        return Path(name).expanduser().read_text(encoding="utf-8").removesuffix("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise LookupError(f"the file {name!r} cannot be read: {getattr(error, 'strerror', None) or error}") from None


#: Always there; plugins add more.
PROVIDERS: Mapping[str, SecretProvider] = {"env": from_env, "file": from_file}


@dataclass
class Resolver:
    """Replaces references and remembers their values, so that no text made later shows one."""

    providers: Mapping[str, SecretProvider]
    secrets: set[str] = field(default_factory=set)

    def resolve(self, data: Any, where: Callable[[tuple[Any, ...]], str]) -> Any:
        """``data`` with every reference replaced; raises one ConfigError that names all that are missing."""
        missing: list[str] = []
        resolved = self._walk(data, (), where, missing)
        if missing:
            raise ConfigError(
                "\n  ".join([f"{len(missing)} reference{'s' if len(missing) > 1 else ''} cannot be resolved:", *missing]),
                fix="set them, or write the value into the file",
            )
        return resolved

    def redact(self, text: str) -> str:
        """``text`` without the value of any reference."""
        for secret in sorted(self.secrets, key=len, reverse=True):
            text = text.replace(secret, "******")
        return text

    def _walk(self, data: Any, loc: tuple[Any, ...], where: Callable[[tuple[Any, ...]], str], missing: list[str]) -> Any:
        if isinstance(data, dict):
            return {key: self._walk(value, (*loc, key), where, missing) for key, value in data.items()}
        if isinstance(data, list):
            return [self._walk(value, (*loc, i), where, missing) for i, value in enumerate(data)]
        if not isinstance(data, str):
            return data

        def replace(match: re.Match[str]) -> str:
            try:
                value = self._look_up(match["provider"], match["name"])
            except (LookupError, HeadraceError) as error:
                missing.append(f"{where(loc)}: {match[0]}: {error.args[0] if error.args else error}")
                return ""
            if value:
                self.secrets.add(value)
            return value

        return _REFERENCE.sub(replace, data)

    def _look_up(self, provider: str, name: str) -> str:
        if provider not in self.providers:
            raise LookupError(f"no secret provider {provider!r}; {did_you_mean(provider, self.providers)}")
        return self.providers[provider](name)
