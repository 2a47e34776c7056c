"""Pipelines whose tables, dead letters and counts equal those of a model that is not Spark.

``HEADRACE_ORACLE=SEED`` repeats the nightly packs of a seed.
"""

from __future__ import annotations

import json
import os
import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.plugins.sources.formats.test_avro_records import FakeRegistry, fake_registry
from tests.support.oracle.grammar import make_pack
from tests.support.oracle.minimize import CASES, minimize_run
from tests.support.oracle.runner import Servers, find_differences
from tests.support.pipelines import TABLE_SINKS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace_stack.servers.kafka import Kafka

pytestmark = [pytest.mark.spark, pytest.mark.one_spark]

__all__ = ["fake_registry"]
#: Seeds of `make test`: 8 packs of 5 cases.
SEEDS = range(8)
#: Nightly packs: 10 tests of 10 packs of 5 cases.
PARTS, PACKS = 10, 10


@pytest.mark.parametrize("seed", SEEDS)
def test_fixed_cases(seed: int, spark: SparkSession, tmp_path: Path, fake_registry: FakeRegistry) -> None:
    pack = make_pack(seed)
    # The log has the records of a broker without its process.
    check(
        {**pack, "transport": pack["transport"].replace("kafka", "log")}, spark, tmp_path, Servers(None, fake_registry)
    )


@pytest.mark.parametrize("path", sorted(CASES.glob("*.json")), ids=lambda path: path.stem)
def test_kept_cases(path: Path, spark: SparkSession, tmp_path: Path, fake_registry: FakeRegistry) -> None:
    check(json.loads(path.read_text(encoding="utf-8")), spark, tmp_path, Servers(None, fake_registry))


@pytest.mark.nightly
@pytest.mark.parametrize("part", range(PARTS))
def test_random_cases(
    part: int, spark: SparkSession, tmp_path: Path, fake_registry: FakeRegistry, kafka: Kafka
) -> None:
    seed = os.environ.get("HEADRACE_ORACLE") or secrets.token_hex(4)
    for number in range(PACKS):
        folder = tmp_path / str(number)
        folder.mkdir()
        check(make_pack(f"{seed}-{part}-{number}"), spark, folder, Servers(kafka, fake_registry), minimized=True)


def check(
    pack: dict[str, Any], spark: SparkSession, folder: Path, servers: Servers, *, minimized: bool = False
) -> None:
    """Fail with the differences between the model and the run. ``minimized``: first look for a smaller pack that fails."""
    if pack["sink"] not in TABLE_SINKS:
        pytest.skip(f"{pack['sink']} does not support this Spark")
    differences = find_differences(pack, spark, folder, servers)
    if not differences:
        return
    if minimized:
        smallest, differences = minimize_run(pack, spark, servers)
        differences.append(f"keep it in {CASES}:\n{json.dumps(smallest)}")
    command = f"python -m tests.support.oracle.minimize {pack['seed']}"
    pytest.fail("\n".join([f"pack {pack['seed']}; to minimize it: {command}", *differences]), pytrace=False)
