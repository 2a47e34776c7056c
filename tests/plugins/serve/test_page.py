"""The page: complete without a script, no value of a row, no request to other servers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

import pytest
from headrace_serve.run_record import KEPT
from tests.plugins.serve.client import ORDERS, RUNNING, ServedRun, serve_run
from tests.plugins.serve.test_metrics import ONE

from headrace.sdk.observer import Maintained, RunEventKind

CAST = "table shop.people: [CAST_INVALID_INPUT] The value 'Arp' of the type \"STRING\" cannot be cast\n  fix: widen it"


@pytest.fixture
def run() -> Iterator[ServedRun]:
    with serve_run() as run:
        yield run


def text_of(html: str) -> str:
    """Return the text that a browser shows without a script."""
    assert "<main>" in html
    return " ".join(re.sub(r"<[^>]+>", " ", html.partition("<body>")[2]).split())


def test_page_shows_the_run_without_a_script(run: ServedRun) -> None:
    run.commit(7, ONE, steps={"plan": 0.05, "write": 0.7})
    run.commit(8, replace(ONE, rows_in=20, latency_ms=3000))
    done = Maintained("shop.orders", "lake", "compact", "27 files", "27 files became 1", 2.5)
    run.observers.emit(RunEventKind.MAINTENANCE_DONE, table="shop.orders", maintained=done)
    run.observers.emit(RunEventKind.TABLE_SET_ASIDE, table="shop.people", batch=7, error=CAST)
    failed = replace(ORDERS, table="shop.people", error=CAST, backlog=31, failing_since="2026-11-22T11:48:02+00:00")
    behind = replace(ORDERS, lag=12345, lag_seconds=7200.0, stages_ms={"transport": 800, "read": 300, "write": 400})
    run.status = replace(RUNNING, tables=(behind, failed))
    html = run.get("/").text
    shown = text_of(html)
    for expected in (
        "shop is not ready: 2 reasons",
        "shop.orders → lake: 7200 s behind",
        "shop.people → lake 2026-11-22T11:48:02+00:00 table shop.people: [CAST_INVALID_INPUT]",
        "fix: widen it",
        "shop.people lake set aside",
        "shop.orders lake written 2.0 h 1.5 s 0.8 s 0.3 s 0.4 s 2.5 12 12,345 0",
        "shop.orders key-missing 4",
        "7 0.8 s 6 1 plan 0.1 s, write 0.7 s committed",
        "shop.orders → lake compact 2.5 s 27 files became 1",
    ):
        assert expected in shown, expected
    # The latency doubles, and the rate too: both lines go from the middle to the top.
    assert html.count('<polyline points="0,8 60,1"/>') == 2
    assert html.count("<table>") == html.count('<div tabindex=0 role="region"') == 5
    assert "Arp" not in run.get("/").text


def test_page_of_an_idle_and_of_an_ended_run(run: ServedRun) -> None:
    run.status = RUNNING
    assert "No table has received a record in this run." in run.get("/").text
    run.status = replace(RUNNING, active=False, message="stopped")
    assert "shop has ended stopped" in text_of(run.get("/").text)


def test_names_are_escaped(run: ServedRun) -> None:
    name = "<script>alert(1)</script>"
    run.commit(0, replace(ONE, table=name))
    run.observers.emit(RunEventKind.TABLE_SET_ASIDE, table=name, batch=0, error=f"{name} & more")
    run.status = replace(RUNNING, tables=(replace(ORDERS, table=name, error=f'"{name}"'),), message=name)
    assert name not in run.get("/").text


def test_page_requests_nothing_from_other_servers(run: ServedRun) -> None:
    parts = [run.get(path).text for path in ("/", "/page.css", "/page.js")]
    assert not [found for part in parts for found in re.findall(r"(?:https?:)?//[\w.-]+\.\w+", part)]
    assert "prefers-color-scheme: dark" in parts[1]
    assert " style=" not in parts[0]
    assert not re.search(r"<script(?! src)", parts[0])


def test_two_hundred_tables_fit(run: ServedRun) -> None:
    names = [f"shop.t{n}" for n in range(200)]
    for batch in range(KEPT):
        one = replace(ONE, dead_letters=0, reasons={}, latency_ms=1000 + 37 * batch % 500)
        run.commit(batch, *[replace(one, table=name) for name in names])
    run.status = replace(RUNNING, tables=tuple(replace(ORDERS, table=name) for name in names))
    page = run.get("/").text
    assert page.count("<tr>") == 201 + 1 + KEPT
    assert len(page) < 200_000
