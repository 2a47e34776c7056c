from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from headrace.testing.sinks import SinkConformance
from headrace_sinks.files import FilesSink

pytestmark = pytest.mark.spark


class TestJson(SinkConformance):
    sink_class = FilesSink

    def config(self, folder: Path) -> Mapping[str, Any]:
        return {"path": str(folder)}


class TestAvro(SinkConformance):
    sink_class = FilesSink

    def config(self, folder: Path) -> Mapping[str, Any]:
        return {"path": str(folder), "format": "avro"}


class TestParquet(SinkConformance):
    sink_class = FilesSink

    def config(self, folder: Path) -> Mapping[str, Any]:
        return {"path": str(folder), "format": "parquet"}
