"""Parts of a shell script: the words of its commands, and its here-documents."""

from __future__ import annotations

from dataclasses import dataclass, field

#: Programs that read commands from a here-document.
_SHELLS = ("bash", "dash", "ksh", "sh", "ssh", "zsh")


@dataclass(frozen=True)
class Expansion:
    """Text that the shell inserts. ``shown``: its form without contents, which may be secrets.

    ``variable``: name of the variable whose value it is; empty for other expansions, such as the output of a command.
    """

    shown: str
    variable: str = ""
    has_default: bool = False


@dataclass
class Word:
    """Word of a command: literal texts, without their quotes, and expansions."""

    parts: list[str | Expansion] = field(default_factory=list)

    def add(self, text: str) -> None:
        """Append a literal text, also an empty one."""
        if self.parts and isinstance(self.parts[-1], str):
            self.parts[-1] += text
        else:
            self.parts.append(text)

    @property
    def expansions(self) -> list[Expansion]:
        return [part for part in self.parts if isinstance(part, Expansion)]

    @property
    def start(self) -> str:
        """Literal text before the first expansion."""
        return self.parts[0] if self.parts and isinstance(self.parts[0], str) else ""

    @property
    def is_variable(self) -> bool:
        return len(self.parts) == len(self.expansions) == 1 and bool(self.expansions[0].variable)

    def __str__(self) -> str:
        """Return the text, with references in place of variables."""
        return "".join(part if isinstance(part, str) else f"${{env:{part.variable}}}" for part in self.parts)


@dataclass
class HereDocument:
    """Text between ``<<EOF`` and a line ``EOF``.

    ``command``: the words of the command that reads the text; ``file``: the file that the command makes of it, or empty.
    """

    line: int
    end: str
    command: list[Word]
    is_literal: bool
    is_indented: bool
    text: str = ""
    body: Word = field(default_factory=Word)
    file: str = ""
    is_appended: bool = False

    @property
    def has_commands(self) -> bool:
        return not self.file and any(str(word).rpartition("/")[2] in _SHELLS for word in self.command)


@dataclass
class Script:
    """Words of each command, also of those in ``$(…)``, and here-documents."""

    commands: list[list[Word]]
    documents: list[HereDocument]
