"""Errors, by who has to act: each class has an exit code.

Every message states what failed, where, and the fix. ``headrace run`` ends with the exit code of the error's class.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import ClassVar, Self


class HeadraceError(Exception):
    """Base class of headrace's errors."""

    exit_code: ClassVar[int] = 1

    def __init__(self, what: str, *, where: str | None = None, fix: str | None = None) -> None:
        self.what, self.where, self.fix = what, where, fix
        super().__init__(what, where, fix)

    def at(self, where: str) -> Self:
        """Return the error, located at ``where`` unless it has a location."""
        self.where = self.where or where
        return self

    def redact(self, clean: Callable[[str], str]) -> Self:
        """Return the error with ``clean`` applied to its texts, and to those of the errors that caused it."""
        self.what = clean(self.what)
        self.where, self.fix = (part and clean(part) for part in (self.where, self.fix))
        self.args = (self.what, self.where, self.fix)
        self.__notes__ = [clean(note) for note in getattr(self, "__notes__", [])]
        cause = self.__cause__ or (None if self.__suppress_context__ else self.__context__)
        text = "".join(traceback.format_exception(cause)) if cause else ""
        if clean(text) != text:
            self.__cause__ = RedactedError(clean(text))
        return self

    def __str__(self) -> str:
        text = f"{self.where}: {self.what}" if self.where else self.what
        return f"{text}\n  fix: {self.fix}" if self.fix else text

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (type(self), self.what, self.where, self.fix))


class ConfigError(HeadraceError):
    """The pipeline file, an option, a path or the machine is invalid; nothing was started."""

    exit_code = 2


class NoSuchTableError(ConfigError):
    """A sink does not have the table."""


class LoginError(ConfigError):
    """Authentication failed. The run resolves its secrets again, and fails when they are unchanged."""


class PluginError(HeadraceError):
    """A plugin is missing or broken, has an unsupported API version, or violates its contract."""

    exit_code = 3


class DataError(HeadraceError):
    """The input is invalid, and the policy is to stop."""

    exit_code = 4


class RuleError(DataError):
    """The pipeline file stops the whole run for this error, not one table."""


class RetriableError(HeadraceError):
    """A service was unreachable or busy; the batch can be retried."""

    exit_code = 5


class FatalError(HeadraceError):
    """The run cannot continue: disk full, out of memory, Spark's process gone."""

    exit_code = 6


class RedactedError(Exception):
    """Traceback of an error, with its secrets removed."""


def _rebuild(kind: type[HeadraceError], what: str, where: str | None, fix: str | None) -> HeadraceError:
    return kind(what, where=where, fix=fix)
