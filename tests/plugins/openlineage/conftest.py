"""Configuration of OpenLineage's client in tests: nothing of the environment."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.plugins.openlineage.doubles import CollectorServer

Read = Callable[[], list[dict[str, Any]]]


@pytest.fixture(autouse=True)
def _own_configuration(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    before = dict(os.environ)
    for name in [name for name in os.environ if name.startswith("OPENLINEAGE")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    yield
    # The client adds variables.
    for name in os.environ.keys() - before.keys():
        del os.environ[name]


@pytest.fixture
def read_events(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Read:
    """Write the events to a file; return a function that reads them."""
    file = tmp_path / "events.jsonl"
    (tmp_path / "openlineage.yml").write_text(f"transport: {{type: file, log_file_path: {file}, append: true}}\n")
    return lambda: [json.loads(line) for line in file.read_text().splitlines()]


@pytest.fixture
def collector(tmp_path: Path) -> Iterator[CollectorServer]:
    """Send the events to a collector. The client itself repeats no request, which takes several seconds."""
    with CollectorServer() as server:
        (tmp_path / "openlineage.yml").write_text(
            f"transport: {{type: http, url: {server.endpoint_url}, retry: {{total: 0}}}}\n"
        )
        yield server
