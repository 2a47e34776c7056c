"""All problems of a pipeline file in one error."""

from __future__ import annotations

import re

import pytest

from headrace.config.loader import build
from headrace.config.references import PROVIDERS
from headrace.config.yaml_document import parse
from headrace.errors import ConfigError, HeadraceError, PluginError, RetriableError


def error_of(text: str) -> HeadraceError:
    with pytest.raises(HeadraceError) as raised:
        build(parse(text, "p.yaml"), dict)
    return raised.value


def test_problems_of_all_blocks_are_reported_together() -> None:
    error = error_of(
        """
name: two words
source:
  kafka: {bootstrap.servers: "b:9092", subscribe: a, subscribed: b, failOnDataLoss: 7}
  value: {avrro: {}}
tables: [{soruce: a}]
transforms:
  - unwrap: {ad.fields: op, add.fields.prefix: 1}
  - unwarp: {}
sinks:
  - iceberg: {warehouse: w, mode: sideways}
  - hudi: {pth: x}
"""
    )
    assert type(error) is ConfigError
    assert [line.removeprefix("  p.yaml:") for line in error.what.splitlines() if line.startswith("  p.yaml")] == [
        "2 name: 'two words' is not a name: letters, digits, '_', '-' and '.'",
        "6 tables.0.soruce: unknown key 'soruce'",
        "2: 'checkpoint' is missing",
        "5 source.value.avrro: unknown format 'avrro'",
        "4 source.kafka.subscribed: unknown key 'subscribed'",
        "4 source.kafka.failOnDataLoss: must be true or false",
        "11 sinks.0.iceberg.mode: must be 'upsert', 'append', 'changelog', 'history' or 'both'",
        "12 sinks.1.hudi.pth: unknown key 'pth'",
        "8 transforms.0.unwrap.ad.fields: unknown key 'ad.fields'",
        "8 transforms.0.unwrap.add.fields.prefix: must be text",
        "9 transforms.1.unwarp: unknown transform 'unwarp'",
    ]


def test_problems_of_an_inner_block_and_its_block_are_reported_together() -> None:
    error = error_of(
        """
name: p
source:
  kafka: {bootstrap.servers: "b:9092", subscribe: a, failOnDataLoss: 7, auth: {msk-iam: {regoin: x}}}
sink: console
checkpoint: c
"""
    )
    assert error.what.startswith("2 problems")
    assert "source.kafka.auth.msk-iam.regoin: unknown key 'regoin'" in error.what
    assert "source.kafka.failOnDataLoss: must be true or false" in error.what


def test_single_problem_keeps_its_class_location_and_fix() -> None:
    error = error_of("{name: p, source: {files: {path: a, format: json}}, sink: {icebreg: {}}, checkpoint: c}")
    assert type(error) is PluginError
    assert (error.what, error.where) == ("unknown sink 'icebreg'", "p.yaml:1 sink.icebreg")
    assert error.fix == "did you mean 'iceberg'?"


def test_problems_of_plugins_only_keep_their_class() -> None:
    error = error_of("{name: p, source: {flies: {}}, sink: {icebreg: {}}, checkpoint: c}")
    assert type(error) is PluginError
    assert error.what.startswith("2 problems")


@pytest.mark.parametrize("source", ["null", "7", "[a]", "{a: {}, b: {}}", "{}"])
def test_block_of_another_shape_is_one_problem(source: str) -> None:
    error = error_of(f"{{name: p, source: {source}, sink: console, checkpoint: c}}")
    assert error.where == "p.yaml:1 source"


@pytest.mark.parametrize(
    ("line", "problem", "fix"),
    [
        ("checkpoint:", "checkpoint: has no value", "write a value, or remove the key"),
        ("max.message.bytes: 16MB", "max.message.bytes: must be a whole number", "write digits only"),
        ("max.message.bytes: 0", "max.message.bytes: must be 1 or more", "write a larger number"),
        ("trigger: 99999999999 hours", "trigger: '99999999999 hours' is not an interval", None),
        ("tables: [{source: a, key: [id, id]}]", "tables.0.key: names the column 'id' more than once", None),
        ("tables: [{source: /a.*}]", "tables.0.source: a regular expression also ends with '/'", None),
        (
            "source: {files: {path: a, format: json, maxFilesPerTrigger: 5x}}",
            "is not a whole number",
            "write digits only",
        ),
        ("max.dead.letters: -1", "max.dead.letters: '-1' is not a limit", None),
        ("max.dead.letters: 150%", "max.dead.letters: '150%' is not a limit", None),
        ("dead.letters: {undecodeable: stop}", "dead.letters.undecodeable: must be", "did you mean 'undecodable'?"),
        ("dead.letters: {undecodable: skip}", "dead.letters.undecodable: must be", "write one of these values"),
        ("sink: {hudi: {path: x, mode: upsrt}}", "sink.hudi.mode: must be", "did you mean 'upsert'?"),
        ("transforms: [{mask: {columns: {}}}]", "transforms.0.mask.columns: is empty or too short", None),
        ("transforms: [{mask: {columns: {a: {nullify: false}}}}]", "mask.columns.a.nullify: must be true", None),
    ],
)
def test_problem_has_no_text_of_pydantic(line: str, problem: str, fix: str | None) -> None:
    source = "source: {files: {path: a, format: json}}"
    lines = {
        "checkpoint": "checkpoint: c",
        "source": source,
        "sink": "sink: console",
        line.split(":", maxsplit=1)[0]: line,
    }
    error = error_of("\n".join(["name: p", *lines.values()]))
    assert problem in str(error)
    assert not re.search(
        "pydantic|valid integer|dictionary|constrained|after validation|unable|Input|problems", str(error)
    )
    assert fix is None or error.fix == fix


def test_missing_references_do_not_hide_other_problems(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NONE", raising=False)
    error = error_of(
        """
name: p
source:
  files: {path: "${env:NONE}", format: json, maxFilesPerTriger: 5}
sink:
  hudi: {path: "${env:NONE}", table.type: "${env:NONE}", mode: upsrt}
transforms:
  - mask: {columns: {a: {sha256: {salt: "${env:NONE}"}}}}
chekpoint: c
max.message.bytes: "${env:NONE}"
"""
    )
    assert type(error) is ConfigError
    assert [
        line.removeprefix("  p.yaml:").partition(": ")[0] for line in error.what.splitlines()[1:] if "fix:" not in line
    ] == [
        "  5 references cannot be resolved:",
        "    p.yaml:4 source.files.path",
        "    p.yaml:6 sink.hudi.path",
        "    p.yaml:6 sink.hudi.table.type",
        "    p.yaml:8 transforms.0.mask.columns.a.sha256.salt",
        "    p.yaml:10 max.message.bytes",
        "9 chekpoint",
        "4 source.files.maxFilesPerTriger",
        "6 sink.hudi.mode",
    ]


def test_temporarily_missing_references_of_a_valid_file_can_be_retried(monkeypatch: pytest.MonkeyPatch) -> None:
    def be_busy(name: str) -> str:
        raise RetriableError("the vault is sealed")

    monkeypatch.setitem(PROVIDERS, "env", be_busy)
    text = '{name: p, source: {files: {path: "${env:A}", format: json}}, sink: console, checkpoint: c%s}'
    assert type(error_of(text % "")) is RetriableError
    assert type(error_of(text % ", triger: 5 seconds")) is ConfigError
