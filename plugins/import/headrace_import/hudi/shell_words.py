"""Commands of a shell script as words, with the text that the shell inserts."""

from __future__ import annotations

import re
from collections.abc import Callable

from headrace_import.hudi.shell_script import Expansion, HereDocument, Script, Word

_BLANK, _ENDS = " \t\r", ";&|\n"
#: Characters without a meaning outside of quotes, and inside of double quotes.
_PLAIN, _QUOTED = re.compile(r"[^ \t\r\n;&|\\'\"$`<>()]+"), re.compile(r"[^\"\\$`]+")
#: Variable, argument of the script, or a parameter of the shell such as ``$@``.
_NAME = re.compile(r"[A-Za-z_]\w*|[0-9@*#?$!-]", re.ASCII)
#: Contents of ``${…}``: a variable, with the text of its default or of an error.
_PARAMETER = re.compile(r"(\w+)(?:(:?[-=?]).*)?", re.DOTALL | re.ASCII)
#: Reference of another tool: ``${file:/path:key}``. A shell reads ``:1`` as a part of the variable's text.
_REFERENCE = re.compile(r"[A-Za-z]\w*:[^\s\d$=?+-].*", re.ASCII)
_HEAD = re.compile(r"[#!]?\w*(?:\[[@*]\])?(?::?[-=?+%#/^,@:])?", re.ASCII)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "e": "\x1b", "f": "\f", "v": "\v"}
_REDIRECTION = re.compile(r"&?[<>]+[&|]?[ \t]*")
#: Name to fill in, such as ``<bucket>``, which is no redirection.
_BLANK_NAME = re.compile(r"<[^\s<>]+>")
#: Start of a here-document. ``<<<`` is a redirection of one word.
_HERE = re.compile(r"<<(?P<tabs>-?)[ \t]*(?P<end>(?:'[^'\n]*'|\"[^\"\n]*\"|\\[^\n]|[^\s;&|<>()'\"\\`$])+)")
#: ``$((1 << 2))``, which is a number.
_ARITHMETIC = re.compile(r"\$\(\((?:[^()\n]|\([^()\n]*\))*\)\)")


def parse_script(text: str) -> Script:
    """Return the commands and here-documents of a script. ValueError for a quote, a bracket or a here-document without its end.

    A line that begins with an argument continues the previous line.
    """
    reader = _Reader(text.replace("\r\n", "\n"))
    reader.read()
    if reader.unread:
        raise ValueError(f"no line {reader.unread[0].end}")
    script = Script([command for command in reader.commands if command], [])
    for document in reader.documents:
        if document.has_commands:
            inner = parse_script(document.text)
            script.commands += inner.commands
            script.documents += inner.documents
        else:
            script.documents.append(document)
    return script


class _Reader:
    """State of the shell's parser: the position, the words of the commands, and the word that the position is in."""

    def __init__(self, text: str) -> None:
        self.text, self.end = text, 0
        self.commands: list[list[Word]] = [[]]
        self.word: Word | None = None
        self._is_new_line = self._is_file = False
        #: Here-documents, and those whose text begins at the next line.
        self.documents: list[HereDocument] = []
        self.unread: list[HereDocument] = []
        #: Commands with the files that they write, and whether they append to them.
        self._outputs: list[tuple[list[Word], str, bool]] = []
        self._operator = ""
        #: For each open bracket, whether it begins commands of their own.
        self._brackets: list[bool] = []
        self._actions: dict[str, Callable[[], None]] = {
            "\\": self._read_escape,
            "'": self._read_single,
            '"': self._read_double,
            "$": self._read_dollar,
            "`": self._read_backticks,
            "<": self._read_redirection,
            ">": self._read_redirection,
            "(": self._open_bracket,
            ")": self._close_bracket,
            **dict.fromkeys(_BLANK + _ENDS, self._read_end),
        }

    def read(self, closing: str = "") -> None:
        """Read commands up to the end of the text, or to the bracket ``closing`` of this level."""
        while self.end < len(self.text):
            char = self.text[self.end]
            if char == closing and not self._brackets:
                break
            if char == "#" and self.word is None:
                self.end = len(self.text) if (line := self.text.find("\n", self.end)) < 0 else line
            elif char in self._actions:
                self._actions[char]()
            else:
                self._add_plain(_PLAIN)
        self._end_word()
        if closing and self.end >= len(self.text):
            raise ValueError(f"no closing {closing}")

    def _add_plain(self, pattern: re.Pattern[str]) -> None:
        """Append the characters that have no meaning here."""
        match = pattern.match(self.text, self.end)
        assert match is not None, "other characters have an action"
        self._add(match[0], len(match[0]))

    def _add(self, part: str | Expansion, length: int) -> None:
        """Append a part to the word, and go on behind ``length`` characters."""
        self.word = self.word or Word()
        if isinstance(part, str):
            self.word.add(part)
        else:
            self.word.parts.append(part)
        self.end += length

    def _end_word(self) -> None:
        word, self.word = self.word, None
        if word is None:
            return
        if self._is_file:
            self._is_file = False
            if self._operator in (">", ">>", ">|"):
                self._outputs.append((self.commands[-1], str(word), self._operator == ">>"))
            return
        if self._is_new_line and not word.start.startswith("-"):
            self.commands.append([])
        self._is_new_line = False
        self.commands[-1].append(word)

    def _read_end(self) -> None:
        """Read a blank, a line feed, or an operator that ends the command."""
        char = self.text[self.end]
        if self.text.startswith("&>", self.end):
            self._read_redirection()
            return
        self._end_word()
        self._is_file &= char in _BLANK
        if char in _ENDS:
            self._is_new_line = char == "\n"
            self.commands += [] if self._is_new_line else [[]]
        self.end += 1
        if char == "\n":
            self._read_documents()

    def _open_bracket(self) -> None:
        is_group = self.word is None
        self._brackets.append(is_group)
        if is_group:
            self.commands.append([])
            self.end += 1
        else:
            self._add("(", 1)

    def _close_bracket(self) -> None:
        if self._brackets and self._brackets.pop():
            self._end_word()
            self.commands.append([])
            self.end += 1
        else:
            self._add(")", 1)

    def _read_redirection(self) -> None:
        """Leave out the number, the operator and the file of a redirection."""
        if self.text.startswith(("<(", ">("), self.end):
            shown = f"{self.text[self.end]}(…)"
            self.end += 2
            self._read_commands(shown)
            return
        if match := _BLANK_NAME.match(self.text, self.end):
            self._add(match[0], len(match[0]))
            return
        number = str(self.word) if self.word is not None and str(self.word).isdigit() else ""
        if number:
            self.word = None
        self._end_word()
        if match := _HERE.match(self.text, self.end):
            self._open_document(match)
            return
        match = _REDIRECTION.match(self.text, self.end)
        operator = match[0] if match else self.text[self.end]
        self.end, self._is_file = self.end + len(operator), True
        self._operator = operator.strip() if number in ("", "1") else ""

    def _open_document(self, match: re.Match[str]) -> None:
        """Note the here-document, whose text begins at the next line."""
        end = re.sub(r"\\(.)|['\"]", r"\1", match["end"])
        line = self.text.count("\n", 0, self.end) + 1
        is_literal, is_indented = end != match["end"], bool(match["tabs"])
        self.unread.append(HereDocument(line, end, self.commands[-1], is_literal, is_indented))
        self.end = match.end()

    def _read_documents(self) -> None:
        """Read the texts of the here-documents of the line before."""
        while self.unread:
            document, lines = self.unread[0], list[str]()
            while self.end < len(self.text):
                stop = self.text.find("\n", self.end)
                line = self.text[self.end : stop if stop >= 0 else None]
                self.end += len(line) + (stop >= 0)
                line = line.lstrip("\t") if document.is_indented else line
                if line == document.end:
                    self._close_document(document, "".join(lines))
                    break
                lines.append(f"{line}\n")
            else:
                return
            self.documents.append(self.unread.pop(0))

    def _close_document(self, document: HereDocument, text: str) -> None:
        """Set the text of a here-document, and its file."""
        document.text, document.body = text, Word([text])
        if not document.is_literal:
            inner = _Reader(text)
            inner.read_text()
            self.commands = [*inner.commands, *self.commands]
            document.body = inner.word or Word()
        place = next(n for n, command in enumerate(self.commands) if command is document.command)
        for command in self.commands[place:]:  # `cat <<EOF | tee file`
            names = [str(word) for word in command]
            if "tee" in names and not names[-1].startswith("-"):
                document.file, document.is_appended = names[-1], "-a" in names
        for command, file, is_appended in self._outputs:
            if command is document.command and file != "/dev/null":
                document.file, document.is_appended = file, is_appended

    def _read_escape(self) -> None:
        """Read the character behind a backslash. A backslash at the end of a line continues it."""
        char = self.text[self.end + 1 : self.end + 2]
        if char == "\n":
            self.end += 2
        else:
            self._add(char or "\\", 2)

    def _read_single(self) -> None:
        end = self._find("'", self.end + 1)
        self._add(self.text[self.end + 1 : end], end + 1 - self.end)

    def _read_double(self) -> None:
        self._add("", 1)
        self.read_text('"')
        self.end += 1

    def read_text(self, closing: str = "") -> None:
        """Read a text in which only variables, commands and some escapes have a meaning, up to ``closing`` or its end."""
        while not closing or not self.text.startswith(closing, self.end):
            char, following = self.text[self.end : self.end + 1], self.text[self.end + 1 : self.end + 2]
            if not char:
                if closing:
                    raise ValueError("no closing quotation")
                return
            if char == "\\" and following == "\n":
                self.end += 2
            elif char == "\\" and following and following in f"$`\\{closing}":
                self._add(following, 2)
            elif char == "`":
                self._read_backticks()
            elif char == "$" and following not in ("'", '"'):
                self._read_dollar()
            elif char in '$\\"':
                self._add(char, 1)
            else:
                self._add_plain(_QUOTED)

    def _read_dollar(self) -> None:
        following = self.text[self.end + 1 : self.end + 2]
        if match := _ARITHMETIC.match(self.text, self.end):
            self._add(Expansion("$((…))"), len(match[0]))
        elif following == "(":
            self.end += 2
            self._read_commands("$(…)")
        elif following == "{":
            self._read_braces()
        elif following == "'":
            self._read_escaped()
        elif following == '"':
            self.end += 1
        elif match := _NAME.match(self.text, self.end + 1):
            name, shown = match[0], f"${match[0]}"
            is_value = name[0].isalnum() or name[0] == "_"
            self._add(Expansion(shown, _name_variable(name) if is_value else ""), len(shown))
        else:
            self._add("$", 1)

    def _read_braces(self) -> None:
        """Read ``${…}``: a variable, a reference of another tool, or another expansion."""
        end, depth = self.end + 2, 1
        while depth:
            if end >= len(self.text):
                raise ValueError("no closing }")
            is_inner = self.text.startswith("${", end)
            depth += 1 if is_inner else -(self.text[end] == "}")
            end += 2 if is_inner or self.text[end] == "\\" else 1
        inner, length = self.text[self.end + 2 : end - 1], end - self.end
        if _REFERENCE.fullmatch(inner):
            self._add(f"${{{inner}}}", length)
        elif match := _PARAMETER.fullmatch(inner):
            shown = f"${{{match[1]}{match[2] + '…' if match[2] else ''}}}"
            has_default = bool(match[2]) and match[2][-1] != "?"
            self._add(Expansion(shown, _name_variable(match[1]), has_default), length)
        else:
            head = _HEAD.match(inner)
            shown = head[0] if head else ""
            self._add(Expansion(f"${{{shown}{'' if shown == inner else '…'}}}"), length)

    def _read_escaped(self) -> None:
        r"""Read ``$'…'``, in which a backslash has the meaning that it has in C."""
        self._add("", 2)
        while not self.text.startswith("'", self.end):
            char = self.text[self.end : self.end + 1]
            if not char:
                raise ValueError("no closing quotation")
            following = self.text[self.end + 1 : self.end + 2]
            is_escape = char == "\\"
            self._add(_ESCAPES.get(following, following) if is_escape else char, 1 + is_escape)
        self.end += 1

    def _read_backticks(self) -> None:
        end = self.end + 1
        while not self.text.startswith("`", end):
            if end >= len(self.text):
                raise ValueError("no closing `")
            end += 2 if self.text[end] == "\\" else 1
        inner = parse_script(self.text[self.end + 1 : end])
        self.commands, self.documents = [*inner.commands, *self.commands], [*self.documents, *inner.documents]
        self._add(Expansion("`…`"), end + 1 - self.end)

    def _read_commands(self, shown: str) -> None:
        """Read the commands in brackets, whose output the shell inserts."""
        inner = _Reader(self.text)
        inner.end = self.end
        inner.read(")")
        self.commands, self.documents = [*inner.commands, *self.commands], [*self.documents, *inner.documents]
        self.unread += inner.unread
        self._add(Expansion(shown), inner.end + 1 - self.end)

    def _find(self, char: str, start: int) -> int:
        end = self.text.find(char, start)
        if end < 0:
            raise ValueError("no closing quotation")
        return end


def _name_variable(name: str) -> str:
    """Return the environment variable for a variable of the shell, or for an argument of the script."""
    return f"ARGUMENT_{name}" if name.isdigit() else name
