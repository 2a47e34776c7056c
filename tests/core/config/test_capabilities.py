"""What a plugin can do is found in what it says and brings, not in what its base has."""

from __future__ import annotations

from typing import Any, ClassVar

from tests.support.ranged import LinesSource

from headrace.config.capabilities import CAPABILITIES, list_capabilities
from headrace.registry.plugin_registry import registry
from headrace.sdk import Capabilities, Sink, Transform


class Keeps(Sink):
    capabilities = Capabilities(upsert=True, exactly_once=True)


class Hides(Transform):
    hides_values = True


def test_what_is_said_and_what_is_brought() -> None:
    assert list_capabilities("sink", Keeps) == ["upsert", "exactly once"]
    assert list_capabilities("transform", Hides) == ["hides values"]
    assert list_capabilities("source", LinesSource) == ["ranged", "records", "replay"]
    assert list_capabilities("catalog", registry().get("catalog", "glue")) == ["connect"]


def test_a_nonsense_claim_is_none() -> None:
    class Odd(Keeps):
        capabilities: ClassVar[Any] = 7

    assert list_capabilities("sink", Odd) == []


def test_every_claim_of_a_sink_is_there() -> None:
    names = {capability.name.replace(" ", "_") for capability in CAPABILITIES["sink"]}
    assert names == set(Capabilities.__dataclass_fields__)
