"""Conformance kit of sinks for the sink ``s3``; test_s3_sink.py covers the other formats."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from headrace.testing.sinks import SinkConformance
from headrace_sinks.s3.s3_sink import S3Sink

pytestmark = [pytest.mark.nightly, pytest.mark.spark]


class TestAvro(SinkConformance):
    plugin_class = S3Sink
    many = 3  # one object per record
    large = 0
    faults = 4
    is_atomic = False  # objects become visible one after another

    def config(self, folder: Path) -> Mapping[str, Any]:
        return {"path": str(folder), "flush.size": 1}
