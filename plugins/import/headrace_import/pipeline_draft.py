"""Pipeline file in the making: each value has a comment with its origin."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import yaml

#: Width of a line without its comment that has no line break in between.
_UNBROKEN = 1 << 30


@dataclass
class Line:
    """Scalar, or list of scalars, with its origin."""

    value: Any
    comment: str = ""


@dataclass
class Block:
    """Mapping of keys to lines, blocks, or lists of blocks, with the origin of the whole."""

    entries: dict[str, Line | Block | Blocks] = field(default_factory=dict)
    comment: str = ""

    def add(self, key: str, value: Any, comment: str = "") -> None:
        """Set a key to a scalar or a list of scalars."""
        self.entries[key] = Line(value, comment)


@dataclass
class Blocks:
    """List of mappings, with the origin of the whole."""

    items: list[Block]
    comment: str = ""


def list_comments(node: Line | Block | Blocks) -> Iterator[str]:
    """Yield all comments of a draft."""
    yield node.comment
    if not isinstance(node, Line):
        for child in node.items if isinstance(node, Blocks) else node.entries.values():
            yield from list_comments(child)


def read_values(block: Block) -> dict[str, Any]:
    """Return a mapping without its comments."""
    return {key: _read_value(node) for key, node in block.entries.items()}


def _read_value(node: Line | Block | Blocks) -> Any:
    if isinstance(node, Line):
        return node.value
    return read_values(node) if isinstance(node, Block) else [read_values(item) for item in node.items]


def write_yaml(draft: Block) -> str:
    """Return the draft as YAML."""
    return "".join(f"{line}\n" for line in _write_block(draft, ""))


def _write_block(block: Block, indent: str) -> Iterator[str]:
    for key, node in block.entries.items():
        start = f"{indent}{_scalar(key)}:"
        if isinstance(node, Block):
            yield from _write_mapping(start, node, indent)
        elif isinstance(node, Blocks):
            yield _with_comment(start, node.comment)
            for item in node.items:
                yield from _write_item(item, indent)
        elif isinstance(node.value, list) and len(node.value) > 1:
            yield _with_comment(start, node.comment)
            yield from (f"{indent}  - {_scalar(value)}" for value in node.value)
        else:
            yield _with_comment(f"{start} {_scalar(node.value)}", node.comment)


def _write_mapping(start: str, node: Block, indent: str) -> Iterator[str]:
    if node.entries:
        yield _with_comment(start, node.comment)
        yield from _write_block(node, f"{indent}  ")
    else:
        yield _with_comment(f"{start} {{}}", node.comment)


def _write_item(item: Block, indent: str) -> Iterator[str]:
    if item.comment:
        yield f"{indent}  # {item.comment}"
    lines: Sequence[str] = list(_write_block(item, f"{indent}    "))
    yield f"{indent}  - {lines[0].strip()}"
    yield from lines[1:]


def _with_comment(text: str, comment: str) -> str:
    return f"{text}  # {comment}" if comment else text


def _scalar(value: Any) -> str:
    """Return a scalar, or a list of one, as YAML on one line."""
    is_printable = all(str(item).isprintable() for item in (value if isinstance(value, list) else [value]))
    style = None if is_printable else '"'
    text = yaml.safe_dump(value, default_style=style, default_flow_style=True, width=_UNBROKEN, allow_unicode=True)
    return str(text).removesuffix("\n").removesuffix("\n...")
