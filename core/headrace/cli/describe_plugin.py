"""Description of a plugin for `headrace plugins NAME`: its documentation and its options."""

from __future__ import annotations

import inspect
import shutil
from typing import TYPE_CHECKING, Any

import click

from headrace.control_characters import escape_controls

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.config.option_docs import Option
    from headrace.sdk.config import Config


def describe_plugin(kind: str, target: Any) -> None:
    """Print the description. ``target``: the class, or the function or command that was registered."""
    from headrace.registry.validation import BASES
    from headrace.sdk.commands import BlockCommand

    help_text = click.HelpFormatter(width=min(shutil.get_terminal_size().columns, 120))
    if isinstance(target, click.Command):
        help_text.write_text(f"headrace {target.name} --help")
    else:
        for paragraph in _read_doc(target).split("\n\n"):
            help_text.write_paragraph()
            help_text.write_text(" ".join(paragraph.split()))
    if kind in BASES or isinstance(target, BlockCommand):
        _write_options(help_text, target.model if isinstance(target, BlockCommand) else target.Config)
    click.echo(escape_controls(help_text.getvalue(), keep_lines=True).rstrip())


def _write_options(help_text: click.HelpFormatter, model: type[Config]) -> None:
    from headrace.config.option_docs import list_inner_models, list_options

    rows = _list_rows(list_options(model))
    if model.passthrough:
        rows.append((", ".join(model.passthrough), "passed on as they are"))
    with help_text.section("Options"):
        help_text.write_dl(rows or [("none", "it has no options")])
    for inner in list_inner_models(model):
        with help_text.section(inner.__name__):
            help_text.write_dl(_list_rows(list_options(inner)))


def _list_rows(options: Sequence[Option]) -> list[tuple[str, str]]:
    return [(f"{option.key}  {_plain(option.kind)}", _describe(option)) for option in options]


def _describe(option: Option) -> str:
    default = {"": "", "required": "[required]"}.get(option.default, f"[default: {option.default}]")
    return _plain(f"{option.text}  {default}".strip())


def _read_doc(target: Any) -> str:
    return _plain(inspect.cleandoc(getattr(target, "__doc__", None) or ""))


def _plain(text: str) -> str:
    return text.replace("`", "")
