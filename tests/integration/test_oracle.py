"""Pipelines whose tables, dead letters and counts equal those of a model that is not Spark."""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.plugins.sources.formats.test_avro_records import FakeRegistry, fake_registry
from tests.support.oracle.grammar import FORMATS, make_pack
from tests.support.oracle.minimize import CASES
from tests.support.oracle.runner import Servers, find_differences
from tests.support.pipelines import TABLE_SINKS
from tests.support.tiers import nightly_after

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace_stack.servers.kafka import Kafka

pytestmark = [pytest.mark.spark, pytest.mark.one_spark]

__all__ = ["fake_registry"]
#: Packs that are the same in each run, and the number of cases in each.
FIXED_PACKS, FIXED_CASES = 10, 4
#: Number of random packs: 500 cases. Three processes share them.
RANDOM_PACKS = 50
#: Start of the seeds of random packs. Each run has other ones.
START = uuid.uuid4().hex[:8]


@pytest.mark.parametrize("seed", nightly_after(1, range(FIXED_PACKS)))
def test_fixed_cases(seed: int, spark: SparkSession, tmp_path: Path, fake_registry: FakeRegistry) -> None:
    check(make_pack(seed, FIXED_CASES), spark, tmp_path, Servers(None, fake_registry))


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.timeout(1800)  # A test that is interrupted in a call of Java breaks the session of all later tests.
@pytest.mark.parametrize(
    "part", [pytest.param(part, marks=pytest.mark.xdist_group(f"packs{part % 3}")) for part in range(RANDOM_PACKS)]
)
def test_random_cases(part: int, spark: SparkSession, tmp_path: Path, fake_registry: FakeRegistry) -> None:
    check(make_pack(f"{START}/{part}"), spark, tmp_path, Servers(None, fake_registry))


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.dist
@pytest.mark.parametrize("style", FORMATS)
def test_cases_over_a_broker(
    style: str, kafka: Kafka, spark: SparkSession, tmp_path: Path, fake_registry: FakeRegistry
) -> None:
    packs = (make_pack(f"broker/{number}", 3) for number in range(100))
    pack = next(pack for pack in packs if pack["transport"] == "log" and pack["format"] == style)
    check({**pack, "transport": "kafka"}, spark, tmp_path, Servers(kafka, fake_registry))


@pytest.mark.parametrize("path", nightly_after(1, sorted(CASES.glob("*.json"))), ids=lambda path: path.stem)
def test_kept_cases(path: Path, spark: SparkSession, tmp_path: Path, fake_registry: FakeRegistry) -> None:
    check(json.loads(path.read_text(encoding="utf-8")), spark, tmp_path, Servers(None, fake_registry))


def check(pack: dict[str, Any], spark: SparkSession, folder: Path, servers: Servers) -> None:
    """Fail with the differences between the model and the run."""
    if pack["sink"] not in TABLE_SINKS:
        pytest.skip(f"{pack['sink']} does not support this Spark")
    if differences := find_differences(pack, spark, folder, servers):
        command = f"python -m tests.support.oracle.minimize {pack['seed']}"
        pytest.fail("\n".join([f"pack {pack['seed']}; to minimize it: {command}", *differences]), pytrace=False)
