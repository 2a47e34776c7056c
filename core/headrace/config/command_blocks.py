"""Blocks of the pipeline file that commands of plugins read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from headrace.config.references import Resolver
from headrace.config.yaml_document import Document
from headrace.errors import HeadraceError
from headrace.registry.plugin_registry import registry

if TYPE_CHECKING:
    from headrace.sdk.commands import BlockCommand
    from headrace.sdk.secrets import SecretProvider


def list_block_commands() -> dict[str, BlockCommand]:
    """Return the commands of plugins that read a block of their own, by the key of the block. A run reads the block of an observer."""
    from headrace.sdk.commands import BlockCommand

    commands = [command for _, command in registry().all("command") if isinstance(command, BlockCommand)]
    observers = registry().names("observer")
    return {command.block: command for command in commands if command.block not in observers}


def read_block(
    document: Document, command: BlockCommand, providers: Mapping[str, SecretProvider]
) -> tuple[Any, dict[str, Any], Callable[[str], str]]:
    """Return the block as its model, the other keys of the file as they are written, and a function that hides the block's secrets."""
    key = command.block
    others = dict(document.data) if isinstance(document.data, dict) else {}
    block = others.pop(key, {} if command.is_optional else None)
    if not isinstance(block, dict):
        what = f"`{key}:` must be a mapping of its options" if block else f"the file has no block `{key}:`"
        raise document.error((key,), what, f"add `{key}:` with its options; `headrace plugins {key}` lists them")
    resolver = Resolver(providers)
    own = {name: value for name, value in block.items() if name not in command.kept}
    try:
        resolved = resolver.resolve(own, lambda loc: document.where((key, *loc)))
        return command.model.model_validate({**block, **resolved}), others, resolver.redact
    except ValidationError as error:
        raise document.invalid(error, (key,)).redact(resolver.redact) from None
    except HeadraceError as error:
        raise error.redact(resolver.redact) from error.__cause__
