"""Pipelines whose tables, dead letters and counts equal those of a model that is not Spark."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.plugins.sources.formats.test_avro_records import FakeRegistry, fake_registry
from tests.support.oracle.grammar import make_pack
from tests.support.oracle.minimize import CASES
from tests.support.oracle.runner import Servers, find_differences
from tests.support.pipelines import TABLE_SINKS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.one_spark]

__all__ = ["fake_registry"]
#: Seeds of the packs, each with 5 cases.
SEEDS = (0, 1, 2, 4, 5)


@pytest.mark.parametrize("seed", SEEDS)
def test_fixed_cases(seed: int, spark: SparkSession, tmp_path: Path, fake_registry: FakeRegistry) -> None:
    pack = make_pack(seed)
    # The log has the records of a broker without its process.
    check({**pack, "transport": pack["transport"].replace("kafka", "log")}, spark, tmp_path, fake_registry)


@pytest.mark.parametrize("path", sorted(CASES.glob("*.json")), ids=lambda path: path.stem)
def test_kept_cases(path: Path, spark: SparkSession, tmp_path: Path, fake_registry: FakeRegistry) -> None:
    check(json.loads(path.read_text(encoding="utf-8")), spark, tmp_path, fake_registry)


def check(pack: dict[str, Any], spark: SparkSession, folder: Path, registry: FakeRegistry) -> None:
    """Fail with the differences between the model and the run."""
    if pack["sink"] not in TABLE_SINKS:
        pytest.skip(f"{pack['sink']} does not support this Spark")
    if differences := find_differences(pack, spark, folder, Servers(None, registry)):
        command = f"python -m tests.support.oracle.minimize {pack['seed']}"
        pytest.fail("\n".join([f"pack {pack['seed']}; to minimize it: {command}", *differences]), pytrace=False)
