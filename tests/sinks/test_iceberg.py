from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from headrace.testing.sinks import SinkConformance
from headrace_sinks.iceberg import IcebergSink

pytestmark = pytest.mark.spark


class TestMergeOnRead(SinkConformance):
    sink_class = IcebergSink

    def config(self, folder: Path) -> Mapping[str, Any]:
        return {"warehouse": str(folder)}


class TestCopyOnWrite(SinkConformance):
    sink_class = IcebergSink

    def config(self, folder: Path) -> Mapping[str, Any]:
        return {"warehouse": str(folder), "table.type": "copy-on-write"}
