"""What a pipeline of objects refuses: each argument that is no object of its kind, in a sentence and without its value."""

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
    ("name", "given", "said"),
    [
        ("value", "json", "value: it is no Format, but a str"),
        ("key", "json", "key: it is no Format, but a str"),
        ("value", {"json": {"password": "canary"}}, "value: it is no Format, but a dict"),
        ("value", JsonFormat, "value: it is the class JsonFormat, and no object of it\n  fix: write JsonFormat(…)"),
        ("source", "kafka", "source: it is no Source, but a str"),
        ("source", MemorySink(store="a"), "source: it is no Source, but a MemorySink"),
        ("sinks", MemorySink(store="a"), "sinks: it is no list, but a MemorySink"),
        ("sinks", ["canary", MemorySink(store="a")], "sinks[0]: it is no Sink, but a str"),
        ("transforms", [MemorySink(store="a"), "canary"], "transforms[0]: it is no Transform, but a MemorySink"),
        ("dialects", ["canary"], "dialects[0]: it is no Dialect, but a str"),
        ("tables", {"source": "canary"}, "tables: it is no list, but a dict"),
        ("checkpoint", Path("canary"), "checkpoint: it is no str, but a PosixPath"),
        ("settings", {"trigger": "canary"}, "settings: it is no Settings, but a dict"),
        ("spark", [("spark.master", "canary")], "spark: it is no Mapping, but a list"),
        ("name", None, "name: it is no str, but a NoneType"),
    ],
)
def test_what_is_no_object_of_its_kind_is_refused(name: str, given: object, said: str) -> None:
    with pytest.raises(ConfigError) as raised:
        Pipeline(**{**RIGHT, name: given})
    assert str(raised.value).startswith(f"Pipeline, {said}")
    assert "canary" not in str(raised.value)


def test_what_is_right_is_taken() -> None:
    assert Pipeline(**RIGHT, key="none", transforms=(), dialects=[]).plan.key_format is None
    assert Pipeline(**RIGHT, key=JsonFormat()).plan.key_format is not None
