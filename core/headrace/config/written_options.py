"""Options of a block as the pipeline file has them, without defaults."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import ValidationError

from headrace.sdk.config import Config, option_text
from headrace.secret_values import HIDDEN, find_secrets, hide_credentials

Block = TypeVar("Block", bound=Config)


def replace_options(block: Block, options: Mapping[str, Any]) -> Block:
    """Return a block with some options replaced. ValidationError for invalid options."""
    keys = {name: field.alias or name for name, field in type(block).model_fields.items()}
    return block.model_validate({**list_written(block), **{keys.get(key, key): v for key, v in options.items()}})


def is_of_whole_block(error: ValidationError) -> bool:
    """Return whether options are invalid only in combination: other options of the block may be missing."""
    return all(item["type"] == "value_error" and not item["loc"] for item in error.errors(include_input=False))


def describe_block(block: Config) -> str:
    """Return the options of a block in one line, without its inner plugins and without secrets."""
    inner = block.plugin_blocks()
    return ", ".join(f"{key}: {_describe(key, v)}" for key, v in list_written(block).items() if key not in inner)


def _describe(key: str, value: Any) -> str:
    return HIDDEN if any(find_secrets({key: value})) else hide_credentials(option_text(value))


def list_written(block: Config) -> dict[str, Any]:
    """Return key → value."""
    fields = type(block).model_fields
    written = {fields[name].alias or name: value for name, value in list_attributes(block).items()}
    return {**written, **(block.model_extra or {})}


def list_attributes(block: Config) -> dict[str, Any]:
    """Return attribute → value, in the order of the class."""
    return {name: getattr(block, name) for name in type(block).model_fields if name in block.model_fields_set}
