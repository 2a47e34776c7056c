"""Command ``headrace completion``: its scripts, and the completions that they request."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.shell_completion import CompletionItem, ShellComplete
from tests.core.conftest import Headrace

from headrace.cli.main import cli


def complete(*words: str, incomplete: str = "") -> list[CompletionItem]:
    return ShellComplete(cli, {}, "headrace", "_HEADRACE_COMPLETE").get_completions(list(words), incomplete)


def list_values(*words: str, incomplete: str = "") -> list[str]:
    return [item.value for item in complete(*words, incomplete=incomplete)]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_script_asks_the_program(shell: str, headrace: Headrace) -> None:
    result = headrace("completion", shell)
    assert result.exit_code == 0
    assert f"_HEADRACE_COMPLETE={shell}_complete" in result.output
    assert f'$(headrace completion {shell})"' in headrace("completion", "--help").output or shell == "fish"


def test_bash_completes_a_command(tmp_path: Path, headrace: Headrace) -> None:
    """The program is a script on the PATH, as after an installation."""
    program = tmp_path / "headrace"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m headrace "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    script = f"""
        PATH={tmp_path}:$PATH
        eval "$(headrace completion bash)"
        complete -p headrace
        COMP_WORDS=(headrace dead); COMP_CWORD=1; _headrace_completion headrace; echo "${{COMPREPLY[*]}}"
        COMPREPLY=(); COMP_WORDS=(headrace new si); COMP_CWORD=2; _headrace_completion headrace; echo "${{COMPREPLY[*]}}"
    """
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True, cwd=tmp_path)
    registered, commands, kinds = done.stdout.splitlines()
    assert "_headrace_completion headrace" in registered
    assert (commands, kinds) == ("dead-letters", "sink")


def test_commands_of_plugins_and_their_options_are_completed() -> None:
    assert {"run", "completion", "connect", "import"} <= set(list_values())
    assert {"deploy", "validate"} <= set(list_values("connect"))
    assert list_values("import", incomplete="--ta") == ["--take-over"]
    assert list_values("run", incomplete="--log") == ["--log-format"]
    assert list_values("run", "--log-format") == ["text", "json"]


def list_file_arguments() -> Iterator[tuple[str, ...]]:
    """Yield the words before each argument ``FILE`` of all commands."""
    with click.Context(cli) as context:
        for name in cli.list_commands(context):
            command = cli.get_command(context, name)
            assert command is not None
            with command.make_context(name, [], parent=context, resilient_parsing=True) as own:
                groups = own.command.commands if isinstance(own.command, click.Group) else {"": own.command}
                for inner, one in groups.items():
                    if any(isinstance(p, click.Argument) and p.name == "file" for p in one.params):
                        yield (name, inner) if inner else (name,)


def test_pipeline_files_are_completed_by_the_shell() -> None:
    found = list(list_file_arguments())
    assert {("run",), ("check",), ("connect", "deploy"), ("alert", "test")} <= set(found)
    assert [words for words in found if [item.type for item in complete(*words)] != ["file"]] == []
