"""Examples of docs/openlineage.md: configurations of the client, and columns of an event."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from headrace_openlineage.collector import Collector
from headrace_openlineage.openlineage_observer import OpenLineage
from tests.plugins.openlineage.conftest import Read
from tests.plugins.openlineage.doubles import ORDERS, ObservedRun
from tests.support.pages import Block, list_blocks

PAGE = Path(__file__).parents[3] / "docs/openlineage.md"
BLOCKS = list(list_blocks(PAGE))
TRANSPORTS = [block for block in BLOCKS if block.body.startswith("transport:")]


@pytest.mark.parametrize("block", TRANSPORTS, ids=lambda block: yaml.safe_load(block.body)["transport"]["type"])
def test_transports(block: Block, tmp_path: Path) -> None:
    text = block.body.replace("/var/log/headrace", str(tmp_path))
    (tmp_path / "openlineage.yml").write_text(text)
    assert Collector().kind == yaml.safe_load(block.body)["transport"]["type"]


def test_page_has_every_described_transport() -> None:
    assert [yaml.safe_load(block.body)["transport"]["type"] for block in TRANSPORTS] == ["http", "file", "console"]


def test_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    (block,) = [block for block in BLOCKS if block.body.startswith("export OPENLINEAGE")]
    for line in block.body.splitlines():
        name, _, value = line.removeprefix("export ").partition("=")
        monkeypatch.setenv(name, value)
    assert Collector().kind == "http"


def test_options() -> None:
    options = [yaml.safe_load(block.body)["openlineage"] for block in BLOCKS if block.language == "yaml"]
    assert [OpenLineage(found).config.namespace for found in options] == [None, "lake-prod"]


def test_columns_of_an_event(read_events: Read) -> None:
    (block,) = [block for block in BLOCKS if block.language == "json"]
    run = ObservedRun()
    run.commit(0, ORDERS)
    run.end()
    event = next(one for one in reversed(read_events()) if one["job"]["name"] == "shop.shop.orders")
    facet: dict[str, Any] = event["outputs"][0]["facets"]["columnLineage"]
    assert json.loads(block.body) == {name: value for name, value in facet.items() if not name.startswith("_")}
