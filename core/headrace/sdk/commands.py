"""Commands of plugins that read a block of the pipeline file."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import click

from headrace.sdk.config import Config
from headrace.sdk.findings import Checkup, Finding

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class BlockCommand(click.Command):
    """Command that reads a block of the pipeline file. A run ignores the block, unless it is the one of an observer.

    ``model``: the options of the block; ``block``: its key, by default the name of the command; ``kept``: options whose values keep
    their references, which another program resolves; ``is_optional``: a file without the block has one without
    options.
    """

    def __init__(
        self,
        name: str,
        model: type[Config],
        kept: tuple[str, ...] = (),
        *,
        block: str | None = None,
        is_optional: bool = False,
        **attributes: Any,
    ) -> None:
        super().__init__(name, **attributes)
        self.model, self.kept, self.is_optional, self.block = model, kept, is_optional, block or name

    def load(self, file: str) -> tuple[Any, dict[str, Any]]:
        """Return the block of a pipeline file as its model, and the other keys of the file with their references.

        ConfigError, with the line, without a block and for an invalid one. Errors after this call show no secret of the block.
        """
        return click.get_current_context().obj.load_block(self, file)  # type: ignore[no-any-return]

    def diagnose(self, file: str, checkup: Checkup) -> Iterable[Finding]:
        """Return findings for ``headrace doctor``, if the file has the block. An error that it raises becomes a finding."""
        return ()

    def open_session(self, file: str, step: str) -> AbstractContextManager[tuple[Any, SparkSession]]:
        """Yield the pipeline of a file and a session for it, which ends with the command. On a terminal, ``step`` is shown meanwhile."""
        return click.get_current_context().obj.open_session(file, step)  # type: ignore[no-any-return]

    def open_pipelines(self, files: Sequence[str], step: str) -> AbstractContextManager[tuple[list[Any], SparkSession]]:
        """Yield the pipelines of several files and one session for all; the settings of the first file override the others'."""
        return click.get_current_context().obj.open_pipelines(files, step)  # type: ignore[no-any-return]


class BlockGroup(BlockCommand, click.Group):
    """Group of commands that read a block of the pipeline file.

    ``headrace check --source`` invokes its command ``preflight``, with the file, if it has one.
    """
