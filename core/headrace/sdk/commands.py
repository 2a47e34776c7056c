"""Commands of plugins that read a block of the pipeline file."""

from __future__ import annotations

from typing import Any

import click

from headrace.sdk.config import Config


class BlockGroup(click.Group):
    """Group of commands that read a block of the pipeline file: the block has the name of the group. A run ignores it.

    ``headrace check --source`` invokes its command ``preflight``, with the file, if it has one. ``model``: the options of the block; ``kept``: options whose values keep their references, which another program resolves.
    """

    def __init__(self, name: str, model: type[Config], kept: tuple[str, ...] = (), **attributes: Any) -> None:
        super().__init__(name, **attributes)
        self.model, self.kept = model, kept

    def load(self, file: str) -> tuple[Any, dict[str, Any]]:
        """Return the block of a pipeline file as its model, and the other keys of the file with their references.

        ConfigError, with the line, without a block and for an invalid one. Errors after this call show no secret of the block.
        """
        return click.get_current_context().obj(self, file)  # type: ignore[no-any-return]
