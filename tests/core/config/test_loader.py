"""All problems of a pipeline file in one error."""

from __future__ import annotations

import pytest

from headrace.config.loader import build
from headrace.config.yaml_document import parse
from headrace.errors import ConfigError, HeadraceError, PluginError


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
        "4 source.kafka.failOnDataLoss: must be a valid boolean, unable to interpret input",
        "11 sinks.0.iceberg.mode: must be 'upsert', 'append' or 'changelog'",
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
    assert "source.kafka.failOnDataLoss: must be a valid boolean" in error.what


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
