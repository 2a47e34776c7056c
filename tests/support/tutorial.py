"""Runner of a tutorial page that builds a project step by step.

A block with ``title="FILE"`` is a file or continues it. A block with ``in="CLASS"`` has members of a class of the module; each one
replaces the member of its name or follows the previous one. Lines of ``console`` blocks that start with ``$`` are run, and the other
lines are the expected output.
"""

from __future__ import annotations

import ast
import re
import shlex
import shutil
import textwrap
from collections.abc import Iterator
from pathlib import Path

from tests.support.dist import run
from tests.support.pages import Block, list_blocks
from tests.support.venv import Venv


class Tutorial:
    """Run of a page in a folder. The results of all ``pytest`` commands are checked together at the end."""

    def __init__(self, page: Path, folder: Path, venv: Venv, path: str) -> None:
        self.project, self._folder, self._venv, self._path = folder, folder, venv, path
        self._written: set[Path] = set()
        #: Copies of the project with the arguments of pytest, and the expected lines of each output.
        self.jobs: list[tuple[Path, list[str]]] = []
        self.expected: list[list[str]] = []
        for block in list_blocks(page):
            self._follow(block)

    def _follow(self, block: Block) -> None:
        marks = dict(mark.split("=", 1) for mark in block.marks)
        if "title" in marks:
            self._write(self.project / marks["title"], block.body)
        elif "in" in marks:
            owner = re.compile(rf"^class {marks['in']}\b", re.MULTILINE)
            (file,) = (one for one in self.project.glob("*.py") if owner.search(one.read_text(encoding="utf-8")))
            file.write_text(put_members(file.read_text(encoding="utf-8"), marks["in"], block.body), encoding="utf-8")
        elif block.language == "console":
            for command, lines in _list_commands(block.body):
                self._run(command, lines)

    def _write(self, file: Path, body: str) -> None:
        if file in self._written:
            gap = "\n\n" if re.match("@|class |def ", body) else "\n"
            body = file.read_text(encoding="utf-8") + gap + body
        self._written.add(file)
        file.write_text(body, encoding="utf-8")

    def _run(self, command: str, lines: list[str]) -> None:
        program, *arguments = shlex.split(command)
        if program == "cd":
            self.project = self.project.joinpath(*arguments)
        elif program == "pytest":
            copy = self._folder / f"step {len(self.jobs)}"
            shutil.copytree(self.project, copy, ignore=shutil.ignore_patterns("*.egg-info", "__pycache__"))
            self.jobs.append((copy, arguments))
            self.expected.append(lines)
        else:
            if program == "pip":  # requirements are installed, and a separate build environment is slow
                arguments += ["--quiet", "--no-build-isolation", "--no-deps"]
            found = self._venv.bin / program if program in ("headrace", "pip") else program
            printed = run([found, *arguments], self.project, environment={"PYTHONPATH": self._path}).stdout
            assert find_missing(lines, printed) == []


def put_members(module: str, owner: str, body: str) -> str:
    """Return a module with members added to a class, or replaced in it."""
    before = ""
    for name, code in _split_members(body):
        lines = module.splitlines(keepends=True)
        (found,) = [node for node in ast.parse(module).body if getattr(node, "name", "") == owner]
        assert isinstance(found, ast.ClassDef)
        ranges = {_name_of(node): (_find_start(node, lines), node.end_lineno or 0) for node in found.body}
        start, end = ranges.get(name) or 2 * (ranges[before][1] if before else found.body[-1].end_lineno or 0,)
        gap = "" if name in ranges else "\n"
        module = "".join([*lines[:start], gap, textwrap.indent(code, "    "), *lines[end:]])
        before = name
    return module


def find_missing(lines: list[str], printed: str) -> list[str]:
    """Return the lines that were not printed, ignoring white space and durations. ``…`` matches any word."""
    rest = r"(, \d+ deselected)?(, \d+ warnings?)? in \d.*| - .*"
    printed_lines = [re.sub(rest, "", line.strip("= ")) for line in printed.splitlines()]
    return [line for line in lines if not any(_is_like(line.split(), one.split()) for one in printed_lines)]


def _is_like(words: list[str], printed_lines: list[str]) -> bool:
    return len(words) <= len(printed_lines) and all(
        word in ("…", one) for word, one in zip(words, printed_lines, strict=False)
    )


def _list_commands(body: str) -> Iterator[tuple[str, list[str]]]:
    for part in re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]:
        command, *lines = part.splitlines()
        yield command, lines


def _split_members(body: str) -> Iterator[tuple[str, str]]:
    lines = body.splitlines(keepends=True)
    for node in ast.parse(body).body:
        yield _name_of(node), "".join(lines[_find_start(node, lines) : node.end_lineno])


def _name_of(node: ast.stmt) -> str:
    target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", node)
    return str(getattr(target, "id", getattr(target, "name", "")))


def _find_start(node: ast.stmt, lines: list[str]) -> int:
    """Return the index of the first line of a statement, including decorators and comments above."""
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    start = min([node.lineno, *(mark.lineno for mark in decorators)]) - 1
    while start and lines[start - 1].lstrip().startswith("#"):
        start -= 1
    return start
