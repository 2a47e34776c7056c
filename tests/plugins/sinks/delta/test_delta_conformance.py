from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.support.kit import ICEBERG_CASES, ONE_SINK_CASES, skip_type_independent_tests
from tests.support.tiers import nightly_tests

from headrace.testing.sinks import SinkConformance
from headrace_sinks.delta import DeltaSink

pytestmark = pytest.mark.spark


#: More tests of Iceberg, whose guarantees `make test` also checks with batches of test_delta_sink.py.
_CASES = (
    "test_append_keeps_every_row",
    "test_new_column_is_added",
    "test_observations_count_the_written_rows",
    "test_replay_does_not_replace_its_batch",
    "test_upsert_survives_a_fault_at_any_step",
)


@nightly_tests(*ONE_SINK_CASES, *ICEBERG_CASES, *_CASES)
class TestDeletionVectors(SinkConformance):
    plugin_class = DeltaSink
    faults = 4
    refused = ({"readers": ["no_such_engine"]},)

    def config(self, folder: Path) -> Mapping[str, Any]:
        return {"path": str(folder)}


@pytest.mark.nightly
@pytest.mark.one_spark
@skip_type_independent_tests
class TestCopyOnWrite(SinkConformance):
    plugin_class = DeltaSink
    faults = 0  # the write steps are the same

    def config(self, folder: Path) -> Mapping[str, Any]:
        return {"path": str(folder), "delta.enableDeletionVectors": "false"}
