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
        ("value", "json", "value: must be of type Format, and is of type str"),
        ("key", "json", "key: must be of type Format, and is of type str"),
        ("value", {"json": {"password": "canary"}}, "value: must be of type Format, and is of type dict"),
        ("value", JsonFormat, "value: it is the class JsonFormat instead of an object\n  fix: write JsonFormat(…)"),
        ("source", "kafka", "source: must be of type Source, and is of type str"),
        ("source", MemorySink(store="a"), "source: must be of type Source, and is of type MemorySink"),
        ("sinks", MemorySink(store="a"), "sinks: must be a list, and is of type MemorySink"),
        ("sinks", ["canary", MemorySink(store="a")], "sinks[0]: must be of type Sink, and is of type str"),
        (
            "transforms",
            [MemorySink(store="a"), "canary"],
            "transforms[0]: must be of type Transform, and is of type MemorySink",
        ),
        ("dialects", ["canary"], "dialects[0]: must be of type Dialect, and is of type str"),
        ("tables", {"source": "canary"}, "tables: must be a list, and is of type dict"),
        ("checkpoint", Path("canary"), "checkpoint: must be of type str, and is of type PosixPath"),
        ("settings", {"trigger": "canary"}, "settings: must be of type Settings, and is of type dict"),
        ("spark", [("spark.master", "canary")], "spark: must be of type Mapping, and is of type list"),
        ("name", None, "name: must be of type str, and is of type NoneType"),
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
