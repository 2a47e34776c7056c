"""Names of the sinks of a pipeline in its output."""

from __future__ import annotations

import pytest

from headrace import ConfigError
from headrace.config.sink_names import name_sinks
from headrace.sdk.sink import Sink
from headrace_sinks import ConsoleSink, FilesSink, IcebergSink


@pytest.mark.parametrize(
    ("kinds", "names"),
    [
        ([IcebergSink], ["iceberg"]),
        ([IcebergSink, FilesSink], ["iceberg", "files"]),
        ([IcebergSink, FilesSink, IcebergSink, IcebergSink], ["iceberg", "files", "iceberg-2", "iceberg-3"]),
    ],
)
def test_second_sink_of_a_kind_has_a_number(kinds: list[type[Sink]], names: list[str]) -> None:
    sinks = [
        kind({"warehouse": "lake/"} if kind is IcebergSink else {"path": "out/", "format": "json"}) for kind in kinds
    ]
    assert list(name_sinks(sinks).values()) == names


def test_number_is_unique_among_plugin_names() -> None:
    class Other(ConsoleSink):
        name = "console-2"

    assert list(name_sinks([Other(), ConsoleSink(), ConsoleSink()]).values()) == ["console-2", "console", "console-3"]


def test_sinks_have_the_names_of_their_options() -> None:
    sinks = [ConsoleSink(name="console-2"), ConsoleSink(), ConsoleSink()]
    assert list(name_sinks(sinks).values()) == ["console-2", "console", "console-3"]
    with pytest.raises(ConfigError, match="2 sinks have the name 'raw'"):
        name_sinks([ConsoleSink(name="raw"), ConsoleSink(name="raw")])
