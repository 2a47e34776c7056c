"""Imports of files, and their check without Spark."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from headrace.engine.plan.pipeline_plan import Plan
from headrace.engine.write.table_plan import check_capabilities
from headrace.pipeline import Pipeline
from headrace_import.import_report import Kind
from headrace_import.pipeline_import import ImportOptions, ImportResult, import_paths


@dataclass
class Importer:
    """Imports configurations into files of ``folder``."""

    folder: Path

    def write(self, name: str, config: Any) -> Path:
        path = self.folder / name
        path.write_text(json.dumps(config), encoding="utf-8")
        return path

    def write_properties(self, options: Mapping[str, str]) -> Path:
        path = self.folder / "application.properties"
        path.write_text("".join(f"{key}={value}\n" for key, value in options.items()), encoding="utf-8")
        return path

    def run(self, *paths: Path, **options: Any) -> ImportResult:
        return import_paths(paths, ImportOptions(**options))

    def load(self, *configs: dict[str, Any], **options: Any) -> Any:
        """Return the pipeline of connectors as a mapping; it passes the check."""
        result = self.run(*(self.write(f"{n}.json", config) for n, config in enumerate(configs)), **options)
        self.check(result)
        return yaml.safe_load(result.pipeline)

    def check(self, result: ImportResult) -> None:
        """Check a pipeline file like ``headrace check``, as far as it needs no session."""
        plan = self._plan(result)
        check_capabilities(plan)
        for plugin in plan.all_plugins:
            plugin.check()

    def name_tables(self, result: ImportResult, *topics: str) -> list[str]:
        """Return the tables of topics."""
        routes = [self._plan(result).routes.of(topic) for topic in topics]
        return [route.table for route in routes if route]

    def _plan(self, result: ImportResult) -> Plan:
        file = self.folder / "checked.yaml"
        file.write_text(result.pipeline, encoding="utf-8")
        return Pipeline.from_file(file).plan


@pytest.fixture
def importer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Importer:
    monkeypatch.setenv("KAFKA_BOOTSTRAP", "broker:9092")
    monkeypatch.setenv("CONNECTION_PASSWORD", "example")
    for name, value in {"REGION": "us-east-1", "ACCESS_KEY_ID": "example", "SECRET_ACCESS_KEY": "example"}.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    return Importer(tmp_path)


@pytest.fixture
def find_keys() -> Callable[[ImportResult, Kind], set[str]]:
    def find(result: ImportResult, kind: Kind) -> set[str]:
        return {key for item in result.report.findings if item.kind is kind for key in item.keys}

    return find
