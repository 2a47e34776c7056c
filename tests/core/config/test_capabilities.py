"""Capabilities of a plugin, from its claims and its methods without those of its base class."""

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


def test_capabilities_come_from_claims_and_methods() -> None:
    assert list_capabilities("sink", Keeps) == ["upsert", "exactly once", "readable"]
    assert list_capabilities("transform", Hides) == ["hides values"]
    assert list_capabilities("source", LinesSource) == ["ranged", "records", "replay"]
    assert list_capabilities("catalog", registry().get("catalog", "glue")) == ["connect"]


def test_invalid_claim_is_ignored() -> None:
    class Odd(Keeps):
        capabilities: ClassVar[Any] = 7

    assert list_capabilities("sink", Odd) == []


def test_all_claims_of_a_sink_are_listed() -> None:
    names = {capability.name.replace(" ", "_") for capability in CAPABILITIES["sink"]}
    assert names == set(Capabilities.__dataclass_fields__)
