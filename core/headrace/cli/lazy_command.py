"""A plugin's command that is imported when it is called, not when it is listed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from headrace.cli.error_report import with_traceback_option
from headrace.errors import PluginError

if TYPE_CHECKING:
    from headrace.sdk.plugins import Registration


class LazyCommand(click.Command):
    """A plugin's command that was registered as ``"package.module:command|What it does."``."""

    def __init__(self, registration: Registration) -> None:
        _, _, summary = str(registration.target).partition("|")
        super().__init__(registration.name, short_help=summary or f"A command of {registration.distribution}.")
        self._distribution = registration.distribution

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        from headrace.sdk.plugins import registry

        command = registry().get("command", str(self.name))
        if not isinstance(command, click.Command):
            raise PluginError(
                f"the command {self.name!r} of {self._distribution} is no click command", fix="report it to its author"
            )
        return with_traceback_option(command).make_context(info_name, args, parent, **extra)
