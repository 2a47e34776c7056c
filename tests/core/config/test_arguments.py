"""Type checks of the arguments of ``Pipeline``. The errors do not contain values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.support.memory_sink import MemorySink
from tests.support.ranged import LinesSource

from headrace import ConfigError, Pipeline
from headrace_sources.formats.json.json_format import JsonFormat

RIGHT: dict[str, Any] = {
    "name": "orders",
    "source": LinesSource(path="log.jsonl"),
    "sinks": [MemorySink(store="orders")],
    "checkpoint": "checkpoint",
    "value": JsonFormat(),
}


@pytest.mark.parametrize(
    ("name", "value", "error"),
    [
        ("value", "json", "value: it is not a Format, but a str"),
        ("key", "json", "key: it is not a Format, but a str"),
        ("value", {"json": {"password": "canary"}}, "value: it is not a Format, but a dict"),
        ("value", JsonFormat, "value: it is the class JsonFormat instead of an object\n  fix: write JsonFormat(…)"),
        ("source", "kafka", "source: it is not a Source, but a str"),
        ("source", MemorySink(store="a"), "source: it is not a Source, but a MemorySink"),
        ("sinks", MemorySink(store="a"), "sinks: it is not a list, but a MemorySink"),
        ("sinks", ["canary", MemorySink(store="a")], "sinks[0]: it is not a Sink, but a str"),
        ("transforms", [MemorySink(store="a"), "canary"], "transforms[0]: it is not a Transform, but a MemorySink"),
        ("dialects", ["canary"], "dialects[0]: it is not a Dialect, but a str"),
        ("tables", {"source": "canary"}, "tables: it is not a list, but a dict"),
        ("checkpoint", Path("canary"), "checkpoint: it is not a str, but a PosixPath"),
        ("settings", {"trigger": "canary"}, "settings: it is not a Settings, but a dict"),
        ("spark", [("spark.master", "canary")], "spark: it is not a Mapping, but a list"),
        ("name", None, "name: it is not a str, but a NoneType"),
    ],
)
def test_argument_of_another_type_is_rejected(name: str, value: object, error: str) -> None:
    with pytest.raises(ConfigError) as raised:
        Pipeline(**{**RIGHT, name: value})
    assert str(raised.value).startswith(f"Pipeline, {error}")
    assert "canary" not in str(raised.value)


def test_valid_arguments_are_accepted() -> None:
    assert Pipeline(**RIGHT, key="none", transforms=(), dialects=[]).plan.key_format is None
    assert Pipeline(**RIGHT, key=JsonFormat()).plan.key_format is not None
