"""Deduplication to the change with the highest position per key, in any order of arrival."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings, strategies as st

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.one_spark]

SCHEMA = "k string, `the number` int, value string, _headrace_deleted boolean, _headrace_position string"
Change = tuple[str, int, str | None, bool, str]

#: Changes of a few keys, with the positions that the database gave them.
HISTORY = st.lists(
    st.tuples(st.sampled_from(["a", "b", "A", ""]), st.integers(0, 2), st.none() | st.text(max_size=2), st.booleans()),
    min_size=1,
    max_size=60,
).map(lambda changes: [(*change, f"0{i:04X}") for i, change in enumerate(changes)])


@settings(max_examples=6, deadline=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
@given(history=HISTORY, repeats=st.lists(st.integers(0, 1000)), seed=st.integers(0, 2**16))
def test_shuffled_history_with_repeats_folds_to_latest_changes(
    spark: SparkSession, history: list[Change], repeats: list[int], seed: int
) -> None:
    from headrace.upsert.deduplicate import latest_per_key

    arrived = history + [history[i % len(history)] for i in repeats]
    random.Random(seed).shuffle(arrived)
    frame = spark.createDataFrame(arrived, SCHEMA).repartition(3)
    folded = latest_per_key(frame, ["k", "the number"])
    assert folded.columns == frame.columns
    newest = {(k, number): (k, number, *rest) for k, number, *rest in history}
    assert sorted(map(tuple, folded.collect()), key=repr) == sorted(newest.values(), key=repr)


def test_empty_history_stays_empty(spark: SparkSession) -> None:
    from headrace.upsert.deduplicate import latest_per_key

    empty: list[Any] = []
    assert latest_per_key(spark.createDataFrame(empty, SCHEMA), ["k"]).collect() == []
