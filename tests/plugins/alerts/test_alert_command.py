"""``headrace alert test``, and the block in a pipeline file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from headrace_alerts.alerts import Alerts
from tests.plugins.alerts.doubles import TOKEN, Hook

from headrace import ConfigError, Pipeline
from headrace.cli.main import cli
from headrace.config.json_schema import pipeline_schema
from headrace.registry.plugin_registry import registry

FILE = """\
name: shop
source: {files: {path: bronze/, format: json}}
sink: {files: {path: lake/}}
checkpoint: checkpoint/
"""


@pytest.fixture
def hook(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hook]:
    with Hook() as server:
        monkeypatch.setenv("HOOK", server.url)
        yield server


def run(folder: Path, block: str, *options: str) -> Result:
    file = folder / "shop.yaml"
    file.write_text(FILE + block, encoding="utf-8")
    result = CliRunner().invoke(cli, ["alert", "test", str(file), *options])
    assert TOKEN not in result.output
    return result


def test_each_receiver_gets_a_test_alert_and_its_end(hook: Hook, tmp_path: Path) -> None:
    block = f"alerts: {{to: [{{slack: {{url: '${{env:HOOK}}'}}}}, {{command: [sh, -c, 'cat >> {tmp_path}/out']}}]}}\n"
    result = run(tmp_path, block)
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == " 1  slack 127.0.0.1  accepted\n 2  command sh       accepted\n"
    first, second = (body["text"].splitlines()[:2] for body in hook.await_bodies(2))
    assert first == [":red_circle: [FIRING] shop: this is a test", "sent by `headrace alert test`"]
    assert second[0].startswith(":white_check_mark: [RESOLVED] shop: this is a test")
    assert (tmp_path / "out").read_text().count('"alertname": "HeadraceTest"') == 2


def test_receiver_that_fails(hook: Hook, tmp_path: Path) -> None:
    hook.status = 404
    result = run(tmp_path, "alerts: {to: [{slack: {url: '${env:HOOK}'}}, {command: ['true']}]}\n")
    assert result.exit_code == 1
    assert result.stdout == (
        " 1  slack 127.0.0.1  FAILED: it answers 404; check the address, the key and their permissions\n"
        " 2  command true     accepted\n"
    )


def test_one_receiver(hook: Hook, tmp_path: Path) -> None:
    block = "alerts: {to: [{slack: {url: '${env:HOOK}'}}, {command: ['true'], send.resolved: false}]}\n"
    result = run(tmp_path, block, "--to", "2")
    assert (result.exit_code, result.stdout) == (0, " 2  command true  accepted\n")
    assert hook.received == []


@pytest.mark.parametrize(
    ("block", "options", "text"),
    [
        ("", (), "the file has no block `alerts:`"),
        ("alerts: {to: [{command: ['true']}]}\n", ("--to", "2"), "`to:` has no receiver 2"),
        ("alerts: {dead.man: {url: 'https://hc-ping.com/x'}}\n", (), "`alerts:` has no receiver"),
        (
            "alerts: {to: [{command: ['true'], timeuot: 1 s}]}\n",
            (),
            "shop.yaml:5 alerts.to.0.timeuot\n  fix: did you mean 'timeout'",
        ),
    ],
)
def test_wrong_input(tmp_path: Path, block: str, options: tuple[str, ...], text: str) -> None:
    result = run(tmp_path, block, *options)
    assert result.exit_code == 2
    assert text in result.stderr


def test_run_reads_the_block_and_ignores_the_name_of_the_command(tmp_path: Path) -> None:
    """`alert` is a command, and `alerts` the block: a misspelled block must not be ignored."""
    file = tmp_path / "shop.yaml"
    file.write_text(FILE + "alerts: {to: [{command: ['true']}]}\n")
    (observer,) = Pipeline.from_file(file).plan.observers
    assert isinstance(observer, Alerts)
    file.write_text(FILE + "alert: {to: [{command: ['true']}]}\n")
    with pytest.raises(ConfigError, match=r"(?s)unknown key 'alert'.*did you mean 'alerts'"):
        Pipeline.from_file(file)


def test_schema_has_the_block_once() -> None:
    schema = pipeline_schema(registry())
    assert schema["properties"]["alerts"] == {"$ref": "#/$defs/observer.alerts"}
    assert "alert" not in schema["properties"]
    assert "command.alerts" not in schema["$defs"]
