"""The kit of observers for `serve`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headrace_serve.serve import Serve
from tests.plugins.serve.client import read_metrics

from headrace.testing.observers import ObserverConformance


class TestServe(ObserverConformance):
    plugin_class = Serve
    refused = (
        {"address": "8080"},
        {"address": "host:99999"},
        {"address": "0.0.0.0:8080"},
        {"username": "ops"},
        {"token": "short"},
        {"max.tables": 0},
    )

    def config(self, folder: Path) -> Mapping[str, Any]:
        return {"address": "127.0.0.1:0"}

    def read_applied(self, observer: Serve) -> int:
        found = read_metrics(observer.port)
        return int(sum(value for name, value in found.items() if 'outcome="applied"' in name))
