"""Errors of third-party plugin code as PluginErrors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from headrace.errors import HeadraceError, PluginError


@contextmanager
def as_plugin_error(what: str, *but: type[BaseException]) -> Iterator[None]:
    """Raise a PluginError that starts with ``what`` for any error of a plugin, except the types in ``but``.

    A user's Ctrl-C passes unchanged. SystemExit does not: a plugin must not end the program that loads it.
    """
    try:
        yield
    except but:
        raise
    except BaseException as error:
        if is_interrupt(error):
            raise
        fix = (
            "pip install 'headrace[spark]'" if _lacks_pyspark(error) else "see the error above; reinstall or report it"
        )
        raise PluginError(f"{what}: {describe_error(error)}", fix=fix) from error


def describe_error(error: BaseException) -> str:
    """Return type and message of a third-party error; for headrace's own errors the message alone."""
    if isinstance(error, HeadraceError):
        return error.what
    try:
        text = str(error)
    except BaseException:  # noqa: BLE001 - an error whose message fails is reported without it
        text = ""
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def is_interrupt(error: BaseException) -> bool:
    """Return whether the error is a user's Ctrl-C. A subclass of KeyboardInterrupt is not."""
    return type(error) is KeyboardInterrupt


def _lacks_pyspark(error: BaseException) -> bool:
    return isinstance(error, ModuleNotFoundError) and (error.name or "").split(".")[0] in ("pyspark", "py4j")
