"""What can go wrong, by what to do about it.

Every message says what happened, where, and the fix. The exit codes are those that ``headrace run`` ends with.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import ClassVar, Self


class HeadraceError(Exception):
    """The root of all errors that headrace raises on purpose."""

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
    """The pipeline file, an option, a path or the machine is not as it must be; nothing was started."""

    exit_code = 2


class LoginError(ConfigError):
    """A server lets nobody in with this login. A run asks for the references of its file anew, and ends when they say the same."""


class PluginError(HeadraceError):
    """A plugin is missing, broken, of another API version, or breaks its contract."""

    exit_code = 3


class DataError(HeadraceError):
    """The input cannot be understood and the rule is to stop."""

    exit_code = 4


class RuleError(DataError):
    """The file says that the run stops for this: all of it, and not one table."""


class RetriableError(HeadraceError):
    """Something outside did not answer or was busy; the same batch can be tried again."""

    exit_code = 5


class FatalError(HeadraceError):
    """The run cannot go on: disk full, permission lost, a table that keeps failing."""

    exit_code = 6


class RedactedError(Exception):
    """The traceback of an error that said a secret, as text without it."""


def _rebuild(kind: type[HeadraceError], what: str, where: str | None, fix: str | None) -> HeadraceError:
    return kind(what, where=where, fix=fix)
