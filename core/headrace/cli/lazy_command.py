"""Plugin commands: they are imported when they are called, not when they are listed, and read blocks of the pipeline file."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, suppress
from typing import TYPE_CHECKING, Any

import click

from headrace.cli.error_report import redact_with, with_traceback_option
from headrace.control_characters import escape_controls
from headrace.errors import PluginError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.pipeline import Pipeline
    from headrace.registry.registration import Registration
    from headrace.sdk.commands import BlockCommand


class LazyCommand(click.Command):
    """Command of a plugin; one that is registered as ``"package.module:command|What it does."`` is listed without an import."""

    def __init__(self, registration: Registration) -> None:
        summary = _summary(registration.target) or f"Command of {registration.distribution}."
        super().__init__(registration.name, short_help=escape_controls(summary))

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        from headrace.registry.plugin_registry import registry

        command: click.Command = registry().get("command", str(self.name))
        return with_traceback_option(command).make_context(info_name, args, parent, **extra)


class PluginServices:
    """Services of the program for commands of plugins (``headrace.sdk.commands``)."""

    @staticmethod
    def load_block(command: BlockCommand, file: str) -> tuple[Any, dict[str, Any]]:
        """Return the command's block of a pipeline file, and the file's other keys; errors after this call show no secret of the block."""
        from headrace.config.command_blocks import read_block
        from headrace.config.loader import SecretProviders
        from headrace.config.yaml_document import load
        from headrace.registry.plugin_registry import registry

        block, others, redact = read_block(load(file), command, SecretProviders(registry()))
        redact_with(redact)
        return block, others

    @staticmethod
    def open_session(file: str, step: str) -> AbstractContextManager[tuple[Pipeline, SparkSession]]:
        """Yield the pipeline of a file and a session for it."""
        from headrace.cli.startup import open_session

        return open_session(file, step)

    @staticmethod
    def open_pipelines(files: Sequence[str], step: str) -> AbstractContextManager[tuple[list[Pipeline], SparkSession]]:
        """Yield the pipelines of several files and one session for all."""
        from headrace.cli.startup import open_pipelines

        return open_pipelines(files, step)


def _summary(target: Any) -> str:
    from headrace.registry.plugin_errors import as_plugin_error

    if isinstance(target, str):
        return target.partition("|")[2]
    with suppress(PluginError), as_plugin_error("its help cannot be read"):
        return str(target.get_short_help_str()) if isinstance(target, click.Command) else ""
    return ""
