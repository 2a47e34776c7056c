"""Tables and examples of docs/opentelemetry.md: the metrics, the spans and the variables."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from headrace_otel.otel_observer import Otel
from headrace_otel.run_metrics import RunMetrics
from opentelemetry.metrics import NoOpMeter
from tests.plugins.otel.doubles import ORDERS, STATUS, OtelRun, OtlpServer
from tests.support.pages import list_blocks

from headrace.sdk import ObservedRun

PAGE = Path(__file__).parents[3] / "docs/opentelemetry.md"
TEXT = PAGE.read_text(encoding="utf-8")


class RecordingMeter(NoOpMeter):
    """Meter that records the names, units and kinds of its instruments."""

    def __init__(self) -> None:
        super().__init__("test")
        self.found: set[tuple[str, str, str]] = set()

    def __getattribute__(self, name: str) -> object:
        if not name.startswith("create_"):
            return super().__getattribute__(name)

        def create(metric: str, *arguments: object, **options: object) -> object:
            unit = next(str(one) for one in arguments if isinstance(one, str))
            self.found.add((metric, unit, name.rpartition("_")[2]))
            return None

        return create


def test_table_of_metrics_is_complete() -> None:
    meter = RecordingMeter()
    RunMetrics(meter, ObservedRun("shop", lambda: STATUS, lambda: 0, print), 10)
    rows = re.findall(
        r"^\| `(headrace\.[\w.]+)` \| (?:`([^`]+)`)? ?\| (counter|gauge|histogram) \|", TEXT, re.MULTILINE
    )
    assert set(rows) == meter.found


def test_attributes_of_metrics(collector: OtlpServer) -> None:
    described = {
        name: set(re.findall(r"`(\w+)`", about))
        for name, about in re.findall(r"^\| `(headrace\.[\w.]+)` \|[^|]*\|[^|]*\|([^|]*)\|$", TEXT, re.MULTILINE)
    }
    run = OtelRun()
    run.commit(0, ORDERS)
    found = {name: {key for about in points for key, _ in about} for name, points in run.read_metrics().items()}
    run.end()
    assert len(found) > 10
    assert found == {name: described[name] for name in found}


def test_spans_and_their_attributes_are_described() -> None:
    run = OtelRun()
    run.commit(0, ORDERS)
    run.end()
    for span in run.read_spans():
        assert f"`{span.name}`" in TEXT or span.name.startswith("headrace.step."), span.name
        for name in span.attributes or {}:
            assert f"`{name}`" in TEXT or name.startswith("headrace.stage."), name


def test_example_of_variables(collector: OtlpServer, monkeypatch: pytest.MonkeyPatch) -> None:
    (block,) = [block for block in list_blocks(PAGE) if block.body.startswith("export OTEL")]
    for line in block.body.splitlines():
        name, _, value = line.removeprefix("export ").partition("=")
        if name != "OTEL_EXPORTER_OTLP_ENDPOINT":
            monkeypatch.setenv(name, value)
    run = OtelRun(Otel())
    run.commit(0, ORDERS)
    run.end()
    attributes = collector.traces[0].resource_spans[0].resource.attributes
    assert {one.key: one.value.string_value for one in attributes}["service.name"] == "lake-writer"
    assert collector.headers[0]["api-key"] == "..."
