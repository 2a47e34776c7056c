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
        ("value", "json", "value: expected Format, found str"),
        ("key", "json", "key: expected Format, found str"),
        ("value", {"json": {"password": "canary"}}, "value: expected Format, found dict"),
        ("value", JsonFormat, "value: it is the class JsonFormat instead of an object\n  fix: write JsonFormat(…)"),
        ("source", "kafka", "source: expected Source, found str"),
        ("source", MemorySink(store="a"), "source: expected Source, found MemorySink"),
        ("sinks", MemorySink(store="a"), "sinks: expected a list, found MemorySink"),
        ("sinks", ["canary", MemorySink(store="a")], "sinks[0]: expected Sink, found str"),
        ("transforms", [MemorySink(store="a"), "canary"], "transforms[0]: expected Transform, found MemorySink"),
        ("dialects", ["canary"], "dialects[0]: expected Dialect, found str"),
        ("tables", {"source": "canary"}, "tables: expected a list, found dict"),
        ("checkpoint", Path("canary"), "checkpoint: expected str, found PosixPath"),
        ("settings", {"trigger": "canary"}, "settings: expected Settings, found dict"),
        ("spark", [("spark.master", "canary")], "spark: expected Mapping, found list"),
        ("name", None, "name: expected str, found NoneType"),
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
