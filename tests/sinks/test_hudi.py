from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from headrace.testing.sinks import SinkConformance
from headrace_sinks.hudi import HudiSink

pytestmark = pytest.mark.spark


class TestMergeOnRead(SinkConformance):
    sink_class = HudiSink

    def config(self, folder: Path) -> Mapping[str, Any]:
        return {"path": str(folder)}


class TestCopyOnWrite(SinkConformance):
    sink_class = HudiSink

    def config(self, folder: Path) -> Mapping[str, Any]:
        return {"path": str(folder), "table.type": "COPY_ON_WRITE"}
