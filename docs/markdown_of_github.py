"""Markdown as GitHub reads it, for Python-Markdown, which requires four spaces per level of a list."""  # noqa: INP001 - a script

from __future__ import annotations

import re

_ITEM = re.compile(r"(?P<marker>[-*]|\d+\.)(?P<gap> +)")
_FENCE = re.compile(r"(?P<fence>`{3,})(?P<language>[\w+-]*).*")
#: Spaces per level of a list.
_LEVEL = 4


def to_python_markdown(text: str) -> str:
    """Return a page with four spaces per level of a list, a blank line before lists, and fences with their language alone."""
    #: Columns at which the contents of the open list items start.
    columns: list[int] = []
    lines: list[str] = []
    fence = ""
    for line in text.splitlines():
        content = line.lstrip(" ")
        indent = len(line) - len(content)
        follows_text = not columns and bool(lines) and lines[-1] != ""
        if content and not fence:
            columns = [column for column in columns if column <= indent]
        item = None if fence else _ITEM.match(content)
        if item and follows_text:  # Only a bullet or the number 1 ends a paragraph.
            item = item if item["marker"] in ("-", "*", "1.") else None
        if item and (follows_text or _has_paragraphs(lines)):
            lines.append("")
        padding = _LEVEL * len(columns) + max(indent - (columns[-1] if columns else 0), 0)
        if item:
            columns.append(indent + item.end())
            content = f"{item['marker']} {content[item.end() :]}"
        fence, content = _read_fence(fence, content)
        lines.append(" " * padding + content if content else "")
    return "\n".join(lines) + "\n"


def _has_paragraphs(lines: list[str]) -> bool:
    """Return whether the last item of a list has several paragraphs."""
    since = next((at for at, line in enumerate(reversed(lines)) if _ITEM.match(line.lstrip(" "))), 0)
    return "" in lines[len(lines) - since :]


def _read_fence(fence: str, content: str) -> tuple[str, str]:
    """Return the open fence after a line, and the line without options of our tests."""
    if fence:
        return ("" if content.strip() == fence else fence), content
    match = _FENCE.fullmatch(content)
    return (match["fence"], match["fence"] + match["language"]) if match else ("", content)
