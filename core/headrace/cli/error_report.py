"""Error messages and exit codes of the program; the traceback on request. docs/exit-codes.md."""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable
from typing import TypeVar

import click

from headrace.cli.formatting import format_json, format_now
from headrace.control_characters import escape_controls
from headrace.errors import ConfigError, HeadraceError

UNEXPECTED, INTERRUPTED = 1, 130
_TRACEBACK, _REDACT, _JSON = "headrace.traceback", "headrace.redact", "headrace.json"

Decorated = TypeVar("Decorated", bound=Callable[..., object] | click.Command)


def _remember(ctx: click.Context, _: click.Parameter, value: bool) -> None:  # noqa: FBT001 - click's signature
    if value:
        ctx.meta[_TRACEBACK] = True


def traceback_option(command: Decorated) -> Decorated:
    """Add ``--traceback``; only ``report`` uses its value."""
    return click.option(
        "--traceback",
        is_flag=True,
        expose_value=False,
        is_eager=True,
        callback=_remember,
        help="Show the full traceback of an error.",
    )(command)


def with_traceback_option(command: click.Command) -> click.Command:
    """Return the command with ``--traceback``, which may also follow the command's name."""
    if not any(param.name == "traceback" for param in command.params):
        traceback_option(command)
    return command


def redact_with(redact: Callable[[str], str]) -> None:
    """Apply ``redact`` to all further error output of this program, after the functions of earlier calls."""
    meta = click.get_current_context().meta
    earlier: Callable[[str], str] = meta.get(_REDACT, str)
    meta[_REDACT] = lambda text: redact(earlier(text))


def hide_secrets(text: str) -> str:
    """Return a text without the secrets that ``redact_with`` removes from errors."""
    redact: Callable[[str], str] = click.get_current_context().meta.get(_REDACT, str)
    return redact(text)


def report_as_json() -> None:
    """Print the error of this program as one JSON line."""
    click.get_current_context().meta[_JSON] = True


def report(error: Exception) -> int:
    """Print an error on stderr and return its exit code."""
    meta = click.get_current_context().meta
    redact: Callable[[str], str] = meta.get(_REDACT, str)
    has_traceback = bool(meta.get(_TRACEBACK))
    what, where, fix, code = _describe(error, has_traceback=has_traceback)
    text = redact("".join(traceback.format_exception(error))) if has_traceback else None
    if meta.get(_JSON):
        parts = {"error": what, "where": where, "fix": fix}
        line = {
            "time": format_now(),
            **{key: redact(value) for key, value in parts.items() if value},
            "exit_code": code,
            **({"traceback": text} if text else {}),
        }
        click.echo(format_json(line), err=True)
        return code
    if text:
        click.echo(escape_controls(text, keep_lines=True) + "\n", err=True)
    _print_part("error", what, redact, fg="red")
    if where:
        _print_part("where", where, redact)
    if fix:
        _print_part("fix", fix, redact)
    return code


def _describe(error: Exception, *, has_traceback: bool) -> tuple[str, str | None, str | None, int]:
    """Return the problem, its location, the fix, and the exit code."""
    if isinstance(error, HeadraceError):
        return error.what, error.where, error.fix, error.exit_code
    if isinstance(error, OSError) and error.filename is not None:
        what = error.strerror or type(error).__name__
        return what, str(error.filename), "check the path and its permissions", ConfigError.exit_code
    fix = None if has_traceback else "run with --traceback to see where it comes from"
    return f"{type(error).__name__}: {_first_line(error)}", None, fix, UNEXPECTED


def _print_part(word: str, text: str, redact: Callable[[str], str], fg: str | None = None) -> None:
    label = click.style(f"{word + ':':>6}", fg=fg, bold=True)
    for line in escape_controls(redact(text), keep_lines=True).split("\n"):
        click.echo(f"{label} {click.style(line, fg=fg)}", err=True)
        label = " " * 6


def _first_line(error: Exception) -> str:
    lines = [line for line in re.sub(r"\x1b\[[0-9;]*m", "", str(error)).splitlines() if line.strip()]
    return lines[0].strip() if lines else "no message"
