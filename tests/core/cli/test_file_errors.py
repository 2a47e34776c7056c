"""Errors in a pipeline file, which are reported with their line before the pipeline starts."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.core.conftest import SAMPLE, Headrace


@pytest.mark.parametrize("command", ["run", "check", "status", "show", "jars"])
def test_missing_file_is_reported(headrace: Headrace, sample: Path, command: str) -> None:
    result = headrace(command, "artist.yaml")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("error: there is no file 'artist.yaml'\n")
    assert "  fix: " in result.stderr


@pytest.mark.parametrize(
    ("right", "wrong", "where", "suggestion"),
    [
        ("checkpoint:", "chekpoint:", "artists.yaml:12 chekpoint", "checkpoint"),
        ("format: avro", "formt: avro", "artists.yaml:3 source.files.formt", "format"),
        ("warehouse:", "warehose:", "artists.yaml:11 sink.iceberg.warehose", "warehouse"),
        ("target:", "targt:", "artists.yaml:5 tables.0.targt", "target"),
    ],
)
def test_unknown_key_is_reported(
    headrace: Headrace, sample: Path, right: str, wrong: str, where: str, suggestion: str
) -> None:
    sample.write_text(SAMPLE.replace(right, wrong))
    result = headrace("check", "artists.yaml")
    assert result.exit_code == 2
    assert f"unknown key {wrong.split(':', maxsplit=1)[0]!r}" in result.stderr
    assert where in result.stderr
    assert f"did you mean {suggestion!r}?" in result.stderr


def test_reference_without_a_value_is_reported(
    headrace: Headrace, sample: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SALT")
    result = headrace("run", "artists.yaml")
    assert result.exit_code == 2
    assert "artists.yaml:9 " in result.stderr
    assert "${env:SALT}: the environment has no variable 'SALT'" in result.stderr


def test_unknown_plugin_is_reported(headrace: Headrace, sample: Path) -> None:
    sample.write_text(SAMPLE.replace("- unwrap:", "- unwarp:"))
    result = headrace("run", "artists.yaml", "--available-now")
    assert result.exit_code == 3
    assert result.stderr == (
        "error: unknown transform 'unwarp'\nwhere: artists.yaml:7 transforms.0.unwarp\n  fix: did you mean 'unwrap'?\n"
    )


def test_table_that_a_sink_rejects_is_reported_before_spark_starts(headrace: Headrace, sample: Path) -> None:
    sample.write_text(SAMPLE.replace("upsert", "append").replace("rewrite", "tombstone"))
    result = headrace("run", "artists.yaml")
    assert result.exit_code == 2
    assert "it appends, so it cannot remove rows that the database deletes" in result.stderr
    assert "starting Spark" not in result.stderr


def test_errors_contain_no_secret(headrace: Headrace, sample: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SALT", "hot pepper")
    sample.write_text(SAMPLE.replace("name: artists\n", 'name: "${env:SALT}"\n'))
    result = headrace("check", "artists.yaml", "--traceback")
    assert "error: '******' is not a name" in result.stderr
    assert "hot pepper" not in result.output


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--available-now", "--trigger", "1 minute"], "--trigger needs a continuous run"),
        (["--trigger", "10 parsecs"], "'10 parsecs' is not an interval"),
        (["--log-format", "xml"], "'xml' is not one of 'text', 'json'"),
    ],
)
def test_invalid_options_are_rejected(headrace: Headrace, sample: Path, arguments: list[str], complaint: str) -> None:
    result = headrace("run", "artists.yaml", *arguments)
    assert result.exit_code == 2
    assert complaint in result.stderr


@pytest.mark.parametrize("before", [(), ("--traceback",)])
def test_error_of_a_json_log_is_one_json_line(headrace: Headrace, sample: Path, before: tuple[str, ...]) -> None:
    sample.write_text(SAMPLE.replace("- unwrap:", '- "unw\\u001barp":'))
    result = headrace(*before, "run", "artists.yaml", "--log-format", "json", "--available-now")
    assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (3, "", 1)
    line = json.loads(result.stderr)
    assert datetime.fromisoformat(line.pop("time")).tzinfo is UTC
    assert ("traceback" in line) == bool(before)
    assert "\x1b" not in result.stderr
    line.pop("traceback", None)
    assert line == {
        "error": "unknown transform 'unw\\x1barp'",
        "where": "artists.yaml:7 transforms.0.unw\x1barp",
        "fix": "did you mean 'unwrap'?",
        "exit_code": 3,
    }


def test_missing_file_of_a_json_log_is_one_json_line(headrace: Headrace, sample: Path) -> None:
    result = headrace("run", "artist.yaml", "--log-format", "json")
    assert json.loads(result.stderr)["error"] == "there is no file 'artist.yaml'"
