"""Alert rules, dashboard and page of metrics: each metric that they name exists."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml
from tests.plugins.serve.client import ORDERS, RUNNING, serve_run
from tests.plugins.serve.test_metrics import ONE

from headrace.sdk.observer import Maintained, RunEventKind

DOCS = Path(__file__).parents[3] / "docs"
RULES, DASHBOARD, PAGE = DOCS / "prometheus-alerts.yml", DOCS / "grafana-dashboard.json", DOCS / "operate.md"


@pytest.fixture(scope="module")
def families() -> dict[str, str]:
    """Return the names of all metrics, and their types."""
    with serve_run() as run:
        run.commit(0, ONE)
        done = Maintained("shop.orders", "lake", "compact", "27 files", "1 file", 2.5)
        run.observers.emit(RunEventKind.MAINTENANCE_DONE, table="shop.orders", maintained=done)
        run.status = type(RUNNING)(True, "waiting for data", 0, None, (ORDERS,), has_answered=True)
        text = run.get("/metrics").text
    return dict(re.findall(r"^# TYPE (headrace_\w+) (\w+)$", text, re.MULTILINE))


def list_names(text: str) -> set[str]:
    return set(re.findall(r"headrace_(?!serve)[a-z_]+", text))


@pytest.mark.parametrize("file", [RULES, DASHBOARD], ids=lambda file: file.name)
def test_named_metrics_exist(file: Path, families: dict[str, str]) -> None:
    samples = set(families)
    for name, kind in families.items():
        samples |= {f"{name}_{part}" for part in ("bucket", "sum", "count")} if kind == "histogram" else set()
    names = list_names(file.read_text(encoding="utf-8"))
    assert len(names) > 5
    assert names - samples == set()


def test_page_lists_every_metric(families: dict[str, str]) -> None:
    assert list_names(PAGE.read_text(encoding="utf-8")) == set(families)


def test_page_lists_every_alert() -> None:
    rules = yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"][0]["rules"]
    page = PAGE.read_text(encoding="utf-8")
    assert [rule["alert"] for rule in rules] == re.findall(r"^\| `(Headrace\w+)` \|", page, re.MULTILINE)
    for rule in rules:
        assert set(rule["labels"]) == {"severity"}
        assert rule["annotations"]["summary"]


def test_panels_do_not_overlap() -> None:
    board = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    places: set[tuple[int, int]] = set()
    for panel in board["panels"]:
        at = panel["gridPos"]
        cells = {(at["x"] + x, at["y"] + y) for x in range(at["w"]) for y in range(at["h"])}
        assert not cells & places, panel["title"]
        places |= cells
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])
